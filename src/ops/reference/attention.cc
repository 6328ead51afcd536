#include <algorithm>
#include <cmath>
#include <limits>

#include "ops/reference/cache_rows.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {

namespace {

// Segments as the host sees them, and the visible keys and the dropout mask of a query.
template <class Op>
class Geometry {
 public:
  explicit Geometry(const Op& op)
      : heads(op.q.shape[1]),
        groups(op.k.shape[1]),
        d(op.q.shape[2]),
        op_(op),
        block_rows_(in_blocks(op.k) ? CacheShape(op.k).rows : 0),
        q_begin_(load_integers(op.segments.q_begin)),
        k_begin_(load_integers(op.segments.k_begin)),
        k_count_(load_integers(op.segments.k_count)),
        sample_(load_integers(op.segments.sample)),
        position_(load_integers(op.segments.position)),
        behind_(load_integers(op.segments.behind)),
        bias_(load(op.relative_bias)) {}

  const std::int64_t heads, groups, d;

  // Calls body(query row, head, first key, keys, segment, query's index among the segment's keys) for every
  // query.
  template <class Body>
  void for_each_query(Body&& body) const {
    for (std::int64_t s = 0; s < op_.segments.count; ++s) {
      const std::int64_t queries = q_begin_[s + 1] - q_begin_[s], keys = k_count_[s];
      require<DataError>(queries >= 0 && keys >= 0 && q_begin_[s] >= 0 && q_begin_[s + 1] <= op_.q.shape[0] &&
                             (block_rows_ > 0 || (k_begin_[s] >= 0 && k_begin_[s] + keys <= op_.k.shape[0])),
                         "attention segment {}: queries [{}, {}) of {}, keys [{}, {}) of {}", s, q_begin_[s],
                         q_begin_[s + 1], op_.q.shape[0], k_begin_[s], k_begin_[s] + keys, op_.k.shape[0]);
      for (std::int64_t i = 0; i < queries; ++i) {
        // The last query is aligned with the last key, or stands so many positions after it.
        const std::int64_t at = keys - queries + i + (behind_.empty() ? 0 : behind_[s]);
        std::int64_t first = 0, last = keys;
        if (op_.options.causal) last = std::clamp<std::int64_t>(at + 1, 0, keys);
        if (op_.options.window > 0) first = std::max<std::int64_t>(0, at - op_.options.window + 1);
        for (std::int64_t h = 0; h < heads; ++h)
          body(q_begin_[s] + i, h, first, std::max<std::int64_t>(0, last - first), s, at);
      }
    }
  }

  // Index in the bias table of a query and a key.
  std::int64_t bias_index(std::int64_t head, std::int64_t query_at, std::int64_t key) const {
    const std::int64_t offset = key - query_at - op_.options.first_offset;
    return std::clamp<std::int64_t>(offset, 0, op_.relative_bias.shape[0] - 1) * heads + head;
  }

  struct Score {
    double value;
    double slope;  // derivative by the scaled product
  };
  Score score(double product, std::int64_t head, std::int64_t query_at, std::int64_t key) const {
    Score out{op_.options.scale * product, 1};
    if (const double cap = op_.options.softcap; cap != 0) {
      const double t = std::tanh(out.value / cap);
      out = {cap * t, 1 - t * t};
    }
    if (op_.relative_bias) out.value += bias_[bias_index(head, query_at, key)];
    return out;
  }

  // Factor of the probability of a key: 0 or 1/(1-p).
  double factor(std::int64_t segment, std::int64_t head, std::int64_t query_at, std::int64_t key) const {
    const AttentionOptions& o = op_.options;
    if (o.dropout == 0) return 1;
    const std::int64_t first = position_[segment];
    const std::uint32_t word = attention_dropout_word(o.dropout_key, sample_[segment], o.first_head + head,
                                                      first + query_at, first + key);
    return uniform_from_word(word) < o.dropout ? 0 : 1 / (1 - static_cast<double>(o.dropout));
  }

  std::int64_t q_at(std::int64_t row, std::int64_t head) const { return (row * heads + head) * d; }
  // Where the elements of a segment's key begin.
  std::int64_t k_at(std::int64_t segment, std::int64_t key, std::int64_t head) const {
    const std::int64_t group = head / (heads / groups);
    if (block_rows_ == 0) return ((k_begin_[segment] + key) * groups + group) * d;
    const std::int64_t block = k_begin_[segment * op_.segments.k_begin.shape[1] + key / block_rows_];
    require<DataError>(block >= 0 && block < op_.k.shape[0], "attention segment {}: block {} of {}", segment,
                       block, op_.k.shape[0]);
    return ((block * groups + group) * block_rows_ + key % block_rows_) * d;
  }

 private:
  const Op& op_;
  const std::int64_t block_rows_;  // 0: keys are contiguous rows
  std::vector<std::int64_t> q_begin_, k_begin_, k_count_, sample_, position_, behind_;
  Values bias_;
};

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

void add_scaled(double* y, double a, const double* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] += a * x[i];
}

}  // namespace

void ReferenceBackend::execute(const AttentionForward& op, Resources) {
  const Geometry g(op);
  const Values q = load(op.q), k = load_cached(op.k, g.d), v = load_cached(op.v, g.d);
  Values o(q.size()), p;
  Values lse(static_cast<std::size_t>(op.q.shape[0] * g.heads), -std::numeric_limits<double>::infinity());
  g.for_each_query([&](std::int64_t row, std::int64_t h, std::int64_t first, std::int64_t keys,
                       std::int64_t s, std::int64_t at) {
    if (keys == 0) return;  // sees nothing: output 0
    p.resize(static_cast<std::size_t>(keys));
    for (std::int64_t j = 0; j < keys; ++j)
      p[j] = g.score(dot(&q[g.q_at(row, h)], &k[g.k_at(s, first + j, h)], g.d), h, at, first + j).value;
    const double top = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& x : p) sum += x = std::exp(x - top);
    lse[row * g.heads + h] = top + std::log(sum);
    for (std::int64_t j = 0; j < keys; ++j)
      add_scaled(&o[g.q_at(row, h)], p[j] / sum * g.factor(s, h, at, first + j), &v[g.k_at(s, first + j, h)],
                 g.d);
  });
  store(o, op.o);
  store(lse, op.lse);
}

void ReferenceBackend::execute(const AttentionBackward& op, Resources) {
  const Geometry g(op);
  const Values q = load(op.q), k = load(op.k), v = load(op.v), o = load(op.o), lse = load(op.lse),
               dout = load(op.dout);
  Values dq(q.size()), dk(k.size()), dv(v.size()), dbias = load(op.drelative_bias);
  g.for_each_query([&](std::int64_t row, std::int64_t h, std::int64_t first, std::int64_t keys,
                       std::int64_t s, std::int64_t at) {
    const double *qi = &q[g.q_at(row, h)], *gi = &dout[g.q_at(row, h)];
    const double delta = dot(gi, &o[g.q_at(row, h)], g.d);  // = sum over keys of p dp
    for (std::int64_t j = first; j < first + keys; ++j) {
      const std::int64_t key = g.k_at(s, j, h);
      const double *kj = &k[key], *vj = &v[key];
      const auto score = g.score(dot(qi, kj, g.d), h, at, j);
      const double p = std::exp(score.value - lse[row * g.heads + h]);
      const double factor = g.factor(s, h, at, j);
      const double dscore = p * (dot(gi, vj, g.d) * factor - delta);
      if (!dbias.empty()) dbias[g.bias_index(h, at, j)] += dscore;
      const double ds = dscore * score.slope * op.options.scale;
      add_scaled(&dv[key], p * factor, gi, g.d);
      add_scaled(&dk[key], ds, qi, g.d);
      add_scaled(&dq[g.q_at(row, h)], ds, kj, g.d);
    }
  });
  store(dq, op.dq);
  store(dk, op.dk);
  store(dv, op.dv);
  store(dbias, op.drelative_bias);
}

void ReferenceBackend::execute(const AttentionMerge& op, Resources) {
  const Values part = load(op.part), part_lse = load(op.part_lse);
  Values o = load(op.o), lse = load(op.lse);
  const std::size_t d = static_cast<std::size_t>(op.part.shape[2]);
  for (std::size_t r = 0; r < lse.size(); ++r) {
    const double top = std::max(lse[r], part_lse[r]);
    if (top == -std::numeric_limits<double>::infinity()) continue;  // no key in either
    const double own = std::exp(lse[r] - top), other = std::exp(part_lse[r] - top), sum = own + other;
    for (std::size_t i = r * d; i < (r + 1) * d; ++i) o[i] = (o[i] * own + part[i] * other) / sum;
    lse[r] = top + std::log(sum);
  }
  store(o, op.o);
  store(lse, op.lse);
}

void ReferenceBackend::execute(const Rotary& op, Resources) {
  const std::int64_t tokens = op.x.shape[0], heads = op.x.shape[1], d = op.x.shape[2],
                     half = op.table.shape[2];
  Values x = load(op.x);
  const Values table = load(op.table);
  const auto positions = load_integers(op.positions);
  for (std::int64_t t = 0; t < tokens; ++t) {
    require<DataError>(positions[t] >= 0 && positions[t] < op.table.shape[0],
                       "rotary: position {} of token {} is outside the table of {}", positions[t], t,
                       op.table.shape[0]);
    const double *c = &table[positions[t] * 2 * half], *s = c + half;
    for (std::int64_t h = 0; h < heads; ++h) {
      double* row = &x[(t * heads + h) * d];
      for (std::int64_t i = 0; i < half; ++i) {
        const double a = row[i], b = row[i + half], sine = op.inverse ? -s[i] : s[i];
        row[i] = a * c[i] - b * sine;
        row[i + half] = b * c[i] + a * sine;
      }
    }
  }
  store(x, op.x);
}

}  // namespace stoa::ops
