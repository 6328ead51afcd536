#include "nn/context_attention.h"

#include <algorithm>

namespace stoa::nn {
namespace {

using parallel::Axis;
using parallel::ContextKind;

TensorView matrix(TensorView x) { return x.reshape({x.rows(), x.shape.inner()}); }

void copy_rows(Pass& pass, TensorView x, TensorView y, TensorView index = {}) {
  ops::run(pass.ops, ops::CopyRows{.x = x, .index = index, .y = y});
}

comm::Communicator& group_of(Pass& pass) { return pass.parallel.along(Axis::kContext); }

// Keys beside values: [tokens, 2 G d].
struct KeyValues {
  TensorView both;
  Shape heads;  // [tokens, G, d]

  KeyValues(TensorView memory, const TensorView& k) : both(memory), heads(k.shape) {
    heads.set(0, both.rows());
  }
  static TensorView memory_for(Pass& pass, const TensorView& k, std::int64_t tokens) {
    return pass.ops.scratch.allocate(k.dtype, {tokens, 2 * k.shape.inner()});
  }
  TensorView k() const { return both.columns(0, heads.inner()).reshape(heads); }
  TensorView v() const { return both.columns(heads.inner(), heads.inner()).reshape(heads); }
};

// Keys and values of all ranks in the order of the sequence.
KeyValues gather(Pass& pass, TensorView k, TensorView v) {
  const std::int64_t tokens = k.rows() * pass.batch.context.size;
  const KeyValues out(KeyValues::memory_for(pass, k, tokens), k);
  Scratch::Frame frame(pass.ops.scratch);
  const KeyValues own(KeyValues::memory_for(pass, k, k.rows()), k);
  copy_rows(pass, matrix(k), matrix(own.k()));
  copy_rows(pass, matrix(v), matrix(own.v()));
  const TensorView all = KeyValues::memory_for(pass, k, tokens);
  group_of(pass).all_gather(own.both, all, pass.ops.stream)->wait();
  copy_rows(pass, all, out.both, pass.batch.to_sequence);
  return out;
}

// The rows of one of a rank's two chunks.
TensorView part_of(TensorView x, int part) {
  const std::int64_t rows = x.rows() / 2;
  return x ? x.slice(part * rows, rows) : x;
}

void gather_forward(Pass& pass, const ops::AttentionForward& op) {
  Scratch::Frame frame(pass.ops.scratch);
  const KeyValues all = gather(pass, op.k, op.v);
  for (int part = 0; part < 2; ++part) {
    ops::AttentionForward run = op;
    run.segments = pass.batch.context_segments[static_cast<std::size_t>(part)];
    run.k = all.k();
    run.v = all.v();
    run.q = part_of(op.q, part);
    run.o = part_of(op.o, part);
    run.lse = part_of(op.lse, part);
    ops::run(pass.ops, run);
  }
}

void gather_backward(Pass& pass, const ops::AttentionBackward& op) {
  Scratch::Frame frame(pass.ops.scratch);
  const std::int64_t tokens = op.k.rows() * pass.batch.context.size;
  const KeyValues gradient(KeyValues::memory_for(pass, op.k, tokens), op.k);
  {
    Scratch::Frame inner(pass.ops.scratch);
    const KeyValues all = gather(pass, op.k, op.v);
    const KeyValues late(KeyValues::memory_for(pass, op.k, tokens), op.k);
    for (int part = 0; part < 2; ++part) {
      const KeyValues& target = part == 0 ? gradient : late;
      ops::AttentionBackward run = op;
      run.segments = pass.batch.context_segments[static_cast<std::size_t>(part)];
      run.k = all.k();
      run.v = all.v();
      run.q = part_of(op.q, part);
      run.o = part_of(op.o, part);
      run.lse = part_of(op.lse, part);
      run.dout = part_of(op.dout, part);
      run.dq = part_of(op.dq, part);
      run.dk = target.k();
      run.dv = target.v();
      ops::run(pass.ops, run);
    }
    ops::run(pass.ops, ops::AddTo{.x = late.both, .y = gradient.both});
  }
  const TensorView by_rank = KeyValues::memory_for(pass, op.k, tokens);
  copy_rows(pass, gradient.both, by_rank, pass.batch.to_ranks);
  const KeyValues own(KeyValues::memory_for(pass, op.k, op.k.rows()), op.k);
  group_of(pass).reduce_scatter(by_rank, own.both, pass.ops.stream)->wait();
  copy_rows(pass, matrix(own.k()), matrix(op.dk));
  copy_rows(pass, matrix(own.v()), matrix(op.dv));
}

// Exchange of tokens for heads. A tensor [tokens, H, d] of this rank's tokens becomes [all tokens, H / size,
// d], in the order of the sequence, and back.
class HeadExchange {
 public:
  explicit HeadExchange(Pass& pass) : pass_(pass), size_(pass.batch.context.size) {}

  Shape by_heads(const TensorView& x) const { return {x.rows() * size_, x.shape[1] / size_, x.shape[2]}; }
  TensorView allocate_by_heads(const TensorView& x) const {
    return pass_.ops.scratch.allocate(x.dtype, by_heads(x));
  }

  TensorView to_heads(TensorView x) const {
    const TensorView out = allocate_by_heads(x);
    Scratch::Frame frame(pass_.ops.scratch);
    const std::int64_t rows = x.rows(), width = x.shape.inner() / size_;
    const TensorView send = pass_.ops.scratch.allocate(x.dtype, {rows * size_, width}),
                     received = pass_.ops.scratch.allocate(x.dtype, {rows * size_, width});
    for (int peer = 0; peer < size_; ++peer)
      copy_rows(pass_, matrix(x).columns(peer * width, width), send.slice(peer * rows, rows));
    group_of(pass_).all_to_all(send, received, pass_.ops.stream)->wait();
    copy_rows(pass_, received, matrix(out), pass_.batch.to_sequence);
    return out;
  }

  void to_tokens(TensorView x, TensorView out) const {
    Scratch::Frame frame(pass_.ops.scratch);
    const std::int64_t rows = out.rows(), width = x.shape.inner();
    const TensorView send = pass_.ops.scratch.allocate(x.dtype, {rows * size_, width}),
                     received = pass_.ops.scratch.allocate(x.dtype, {rows * size_, width});
    copy_rows(pass_, matrix(x), send, pass_.batch.to_ranks);
    group_of(pass_).all_to_all(send, received, pass_.ops.stream)->wait();
    for (int peer = 0; peer < size_; ++peer)
      copy_rows(pass_, received.slice(peer * rows, rows), matrix(out).columns(peer * width, width));
  }

  // Log-sum-exp [tokens, H] of this rank's tokens has as many elements as that of its heads: it is kept so.
  TensorView lse_by_heads(TensorView lse) const {
    return lse ? lse.reshape({lse.rows() * size_, lse.shape[1] / size_}) : lse;
  }
  // Columns of a relative bias [offsets, H] that belong to this rank's heads.
  TensorView of_heads(TensorView table) const {
    if (!table) return table;
    const std::int64_t heads = table.shape[1] / size_;
    return table.columns(pass_.batch.context.rank * heads, heads);
  }
  ops::AttentionOptions options(ops::AttentionOptions options, const TensorView& q) const {
    options.first_head += pass_.batch.context.rank * (q.shape[1] / size_);
    return options;
  }

 private:
  Pass& pass_;
  const int size_;
};

void exchange_forward(Pass& pass, const ops::AttentionForward& op) {
  Scratch::Frame frame(pass.ops.scratch);
  const HeadExchange exchange(pass);
  ops::AttentionForward run = op;
  run.options = exchange.options(op.options, op.q);
  run.segments = pass.batch.segments;
  run.q = exchange.to_heads(op.q);
  run.k = exchange.to_heads(op.k);
  run.v = exchange.to_heads(op.v);
  run.o = exchange.allocate_by_heads(op.o);
  run.lse = exchange.lse_by_heads(op.lse);
  run.relative_bias = exchange.of_heads(op.relative_bias);
  ops::run(pass.ops, run);
  exchange.to_tokens(run.o, op.o);
}

void exchange_backward(Pass& pass, const ops::AttentionBackward& op) {
  Scratch::Frame frame(pass.ops.scratch);
  const HeadExchange exchange(pass);
  ops::AttentionBackward run = op;
  run.options = exchange.options(op.options, op.q);
  run.segments = pass.batch.segments;
  run.dq = exchange.allocate_by_heads(op.q);
  run.dk = exchange.allocate_by_heads(op.k);
  run.dv = exchange.allocate_by_heads(op.v);
  run.relative_bias = exchange.of_heads(op.relative_bias);
  run.drelative_bias = exchange.of_heads(op.drelative_bias);
  {
    Scratch::Frame inner(pass.ops.scratch);
    run.q = exchange.to_heads(op.q);
    run.k = exchange.to_heads(op.k);
    run.v = exchange.to_heads(op.v);
    run.o = exchange.to_heads(op.o);
    run.dout = exchange.to_heads(op.dout);
    run.lse = exchange.lse_by_heads(op.lse);
    ops::run(pass.ops, run);
  }
  exchange.to_tokens(run.dq, op.dq);
  exchange.to_tokens(run.dk, op.dk);
  exchange.to_tokens(run.dv, op.dv);
}

}  // namespace

void context_attention(Pass& pass, const ops::AttentionForward& op) {
  if (pass.batch.context.kind == ContextKind::kAllToAll) return exchange_forward(pass, op);
  gather_forward(pass, op);
}

void context_attention(Pass& pass, const ops::AttentionBackward& op) {
  if (pass.batch.context.kind == ContextKind::kAllToAll) return exchange_backward(pass, op);
  gather_backward(pass, op);
}

}  // namespace stoa::nn
