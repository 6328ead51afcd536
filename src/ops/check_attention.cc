#include <cmath>

#include "ops/all.h"
#include "ops/checker.h"

namespace stoa::ops {

namespace {

constexpr auto kRows = Layout::kStridedRows;

// The tensors of segments may be longer than the number in use.
void check_segment_tensor(const Checker& c, const char* name, const TensorView& tensor, DType type,
                          std::int64_t least) {
  c.tensor(name, tensor, type, "[segments]", {-1});
  c.that(tensor.shape[0] >= least, "{} is {}, expected at least {} elements", name, tensor, least);
}

// Widths of the parts of a head: kv [n + m], rope [r], k [r + n].
void check_latent_widths(const Checker& c, const TensorView& kv, const TensorView& rope,
                         const TensorView& k) {
  const std::int64_t r = rope.shape[1], n = k.shape[2] - r, m = kv.shape[2] - n;
  c.that(n >= 0 && m >= 0 && m <= r + n,
         "heads of {} and {} with {} shared columns: expected keys at least as wide as those, and values no "
         "wider than keys",
         k, kv, r);
}

// What a cache may keep of numbers of a type: no wider type, for nothing is won by it.
TypeSet cached_types(DType type) {
  return type == DType::kF64 ? TypeSet(type) : TypeSet(type) | DType::kBF16 | DType::kF16 | DType::kU8;
}

// A cache of heads of d numbers of a type.
void check_cache(const Checker& c, const char* name, const TensorView& cache, const char* symbols,
                 const Shape& shape, DType type, std::int64_t d) {
  c.tensor(name, cache, cached_types(type), symbols, shape);
  c.that(cache.dtype != DType::kU8 || d > 1, "{} is {}: 8-bit rows are of heads of at least 2 numbers", name,
         cache);
}

// Keys in blocks: for inference alone.
template <class Op>
void check_blocks(const Checker& c, const Op& op) {
  const AttentionSegments& s = op.segments;
  c.tensor("k_begin", s.k_begin, DType::kI32, "[segments, blocks]", {-1, -1});
  c.that(s.k_begin.shape[0] >= s.count && s.k_begin.shape[1] * CacheShape(op.k).rows >= s.longest_k,
         "k_begin is {} for {} segments of up to {} keys in blocks of {}", s.k_begin, s.count, s.longest_k,
         CacheShape(op.k).rows);
  c.that(op.options.dropout == 0, "dropout is {} with keys in blocks, expected 0", op.options.dropout);
  c.none("behind", s.behind, "with keys in blocks");
}

template <class Op>
void check_common(const Checker& c, const Op& op) {
  const AttentionSegments& s = op.segments;
  const AttentionOptions& options = op.options;
  c.tensor("q", op.q, TypeSet::any_float(), "[Tq, H, d]", {-1, -1, -1}, kRows);
  const DType type = op.q.dtype;
  const std::int64_t heads = op.q.shape[1], d = op.q.shape[2];
  const bool cached = in_blocks(op.k);
  if (cached)
    check_cache(c, "k", op.k, "[blocks, G, rows, width]", {-1, -1, -1, cached_width(op.k.dtype, d)}, type, d);
  else
    c.tensor("k", op.k, type, "[Tk, G, d]", {-1, -1, d}, kRows);
  const std::int64_t groups = op.k.shape[1];
  c.that(groups > 0 && heads > 0 && heads % groups == 0,
         "q has {} heads and k has {}: expected a multiple of the number of key heads", heads, groups);
  c.tensor("v", op.v, op.k.dtype, "shape of k", op.k.shape, kRows);
  c.tensor("o", op.o, type, "shape of q", op.q.shape, kRows);

  c.that(s.count >= 0, "there are {} segments, expected 0 or more", s.count);
  check_segment_tensor(c, "q_begin", s.q_begin, DType::kI32, s.count + 1);
  if (cached)
    check_blocks(c, op);
  else
    check_segment_tensor(c, "k_begin", s.k_begin, DType::kI32, s.count);
  check_segment_tensor(c, "k_count", s.k_count, DType::kI32, s.count);
  if (is_given(s.behind)) check_segment_tensor(c, "behind", s.behind, DType::kI32, s.count);
  c.that(s.count == 0 || (s.longest_q > 0 && s.longest_k > 0),
         "longest segment is {} queries, {} keys: expected bounds above 0", s.longest_q, s.longest_k);

  c.that(options.window >= 0, "window is {}, expected 0 (all keys) or more", options.window);
  c.that(std::isfinite(options.scale), "scale is {}, expected a finite number", options.scale);
  c.that(options.softcap >= 0 && std::isfinite(options.softcap),
         "softcap is {}, expected 0 (none) or a finite number above", options.softcap);
  c.optional("relative_bias", op.relative_bias, accumulation_type(type), "[offsets, H]", {-1, heads}, kRows);
  c.that(!op.relative_bias || op.relative_bias.shape[0] > 0,
         "relative_bias is {}, expected at least one offset", op.relative_bias);
  c.probability("dropout", static_cast<double>(options.dropout));
  if (options.dropout > 0) {
    check_segment_tensor(c, "sample", s.sample, DType::kI64, s.count);
    check_segment_tensor(c, "position", s.position, DType::kI32, s.count);
    c.that(options.first_head >= 0 && options.first_head + heads <= options.heads,
           "heads [{}, {}) of {}: dropout needs their place among all heads", options.first_head,
           options.first_head + heads, options.heads);
  }
}

}  // namespace

void check(const AttentionForward& op) {
  const Checker c(op);
  check_common(c, op);
  c.optional("lse", op.lse, accumulation_type(op.q.dtype), "[Tq, H]", {op.q.shape[0], op.q.shape[1]});
  c.apart("o", op.o, "k", op.k);
  c.apart("o", op.o, "v", op.v);
  c.apart("o", op.o, "q", op.q);
}

void check(const AttentionBackward& op) {
  const Checker c(op);
  check_common(c, op);
  c.that(op.k.shape.rank() == 3, "k is {}: keys in blocks have no backward pass", op.k);
  c.tensor("lse", op.lse, accumulation_type(op.q.dtype), "[Tq, H]", {op.q.shape[0], op.q.shape[1]});
  c.tensor("dout", op.dout, op.q.dtype, "shape of q", op.q.shape, kRows);
  c.tensor("dq", op.dq, op.q.dtype, "shape of q", op.q.shape, kRows);
  c.tensor("dk", op.dk, op.q.dtype, "shape of k", op.k.shape, kRows);
  c.tensor("dv", op.dv, op.q.dtype, "shape of v", op.v.shape, kRows);
  if (op.relative_bias)
    c.optional("drelative_bias", op.drelative_bias, op.relative_bias.dtype, "shape of relative_bias",
               op.relative_bias.shape, kRows);
  else
    c.none("drelative_bias", op.drelative_bias, "without relative_bias");
  for (const auto& [name, gradient] :
       {std::pair{"dq", op.dq}, std::pair{"dk", op.dk}, std::pair{"dv", op.dv}}) {
    c.apart(name, gradient, "q", op.q);
    c.apart(name, gradient, "k", op.k);
    c.apart(name, gradient, "v", op.v);
    c.apart(name, gradient, "dout", op.dout);
  }
}

void check(const AttentionMerge& op) {
  const Checker c(op);
  c.tensor("part", op.part, TypeSet::any_float(), "[T, H, d]", {-1, -1, -1});
  const DType sums = accumulation_type(op.part.dtype);
  const Shape lse{op.part.shape[0], op.part.shape[1]};
  c.tensor("part_lse", op.part_lse, sums, "[T, H]", lse);
  c.tensor("o", op.o, sums, "shape of part", op.part.shape);
  c.tensor("lse", op.lse, sums, "[T, H]", lse);
  c.apart("o", op.o, "part", op.part);
}

void check(const AttentionSink& op) {
  const Checker c(op);
  c.tensor("o", op.o, TypeSet::any_float(), "[T, H, d]", {-1, -1, -1});
  const DType sums = accumulation_type(op.o.dtype);
  c.tensor("sinks", op.sinks, sums, "[H]", {op.o.shape[1]});
  c.tensor("lse", op.lse, sums, "[T, H]", {op.o.shape[0], op.o.shape[1]});
}

void check(const AttentionSinkBackward& op) {
  const Checker c(op);
  c.tensor("o", op.o, TypeSet::any_float(), "[T, H, d]", {-1, -1, -1});
  const DType sums = accumulation_type(op.o.dtype);
  c.tensor("dout", op.dout, op.o.dtype, "shape of o", op.o.shape);
  c.tensor("sinks", op.sinks, sums, "[H]", {op.o.shape[1]});
  c.tensor("lse", op.lse, sums, "[T, H]", {op.o.shape[0], op.o.shape[1]});
  c.tensor("dsinks", op.dsinks, sums, "[H]", {op.o.shape[1]});
  c.apart("sinks", op.sinks, "dsinks", op.dsinks);
}

void check(const LatentHeads& op) {
  const Checker c(op);
  c.tensor("kv", op.kv, TypeSet::any_float(), "[T, H, n + m]", {-1, -1, -1});
  const DType type = op.kv.dtype;
  const std::int64_t tokens = op.kv.shape[0], heads = op.kv.shape[1];
  c.tensor("rope", op.rope, type, "[T, r]", {tokens, -1}, kRows);
  c.tensor("k", op.k, type, "[T, H, r + n]", {tokens, heads, -1});
  c.tensor("v", op.v, type, "shape of k", op.k.shape);
  check_latent_widths(c, op.kv, op.rope, op.k);
}

void check(const LatentHeadsBackward& op) {
  const Checker c(op);
  c.tensor("dk", op.dk, TypeSet::any_float(), "[T, H, r + n]", {-1, -1, -1});
  const DType type = op.dk.dtype;
  const std::int64_t tokens = op.dk.shape[0], heads = op.dk.shape[1];
  c.tensor("dv", op.dv, type, "shape of dk", op.dk.shape);
  c.tensor("dkv", op.dkv, type, "[T, H, n + m]", {tokens, heads, -1});
  c.tensor("drope", op.drope, type, "[T, r]", {tokens, -1}, kRows);
  check_latent_widths(c, op.dkv, op.drope, op.dk);
}

void check(const ScatterRows& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, G, d]", {-1, -1, -1}, kRows);
  const std::int64_t d = op.x.shape[2];
  c.tensor("index", op.index, DType::kI32, "[T]", {op.x.shape[0]});
  check_cache(c, "y", op.y, "[blocks, G, rows, width]", {-1, op.x.shape[1], -1, cached_width(op.y.dtype, d)},
              op.x.dtype, d);
  c.apart("x", op.x, "y", op.y);
}

void check(const Rotary& op) {
  const Checker c(op);
  c.tensor("x", op.x, TypeSet::any_float(), "[T, heads, d]", {-1, -1, -1}, kRows);
  c.tensor("positions", op.positions, DType::kI32, "[T]", {op.x.shape[0]});
  c.tensor("table", op.table, accumulation_type(op.x.dtype), "[positions, 2, R]", {-1, 2, -1});
  c.that(2 * op.table.shape[2] <= op.x.shape[2], "table is {}: it turns {} dimensions of x {}", op.table,
         2 * op.table.shape[2], op.x);
}

}  // namespace stoa::ops
