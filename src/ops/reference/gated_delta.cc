// The recurrence as it reads, token by token.
#include "ops/gated_delta.h"

#include <cmath>

#include "ops/reference/reference_backend.h"
#include "ops/reference/sequences.h"

namespace stoa::ops {
namespace {

double logistic(double x) { return 1 / (1 + std::exp(-x)); }
double softplus(double x) { return x > 0 ? x + std::log1p(std::exp(-x)) : std::log1p(std::exp(x)); }

// A vector at length 1, and what it was multiplied by.
struct Unit {
  Values x;
  double factor;
  Unit(const double* raw, std::int64_t n) : x(raw, raw + n) {
    double square = kDeltaEpsilon;
    for (const double e : x) square += e * e;
    factor = 1 / std::sqrt(square);
    for (double& e : x) e *= factor;
  }
  // Adds to `draw` the gradient of the raw vector.
  void backward(const Values& dx, double* draw) const {
    double along = 0;
    for (std::size_t i = 0; i < x.size(); ++i) along += x[i] * dx[i];
    for (std::size_t i = 0; i < x.size(); ++i) draw[i] += factor * (dx[i] - x[i] * along);
  }
};

template <class Op>
struct Heads {
  explicit Heads(const Op& op)
      : keys(op.q.shape[1]),
        values(op.v.shape[1]),
        dk(op.q.shape[2]),
        dv(op.v.shape[2]),
        q(load(op.q)),
        k(load(op.k)),
        v(load(op.v)),
        a(load(op.a)),
        b(load(op.b)),
        decay(load(op.decay)),
        bias(load(op.bias)) {}

  const std::int64_t keys, values, dk, dv;
  const Values q, k, v, a, b, decay, bias;

  std::int64_t key_at(std::int64_t row, std::int64_t head) const {
    return (row * keys + head / (values / keys)) * dk;
  }
  std::int64_t value_at(std::int64_t row, std::int64_t head) const { return (row * values + head) * dv; }
};

// A token of a head: the state before it and after it, and what is between.
struct Step {
  Unit q, k;
  double g, beta, scale;
  Values decayed, difference, state;  // exp(g) S; v - decayed^T k; S after the token

  template <class Op>
  Step(const Heads<Op>& in, std::int64_t row, std::int64_t head, const Values& before)
      : q(&in.q[in.key_at(row, head)], in.dk),
        k(&in.k[in.key_at(row, head)], in.dk),
        g(-std::exp(in.decay[head]) * softplus(in.a[row * in.values + head] + in.bias[head])),
        beta(logistic(in.b[row * in.values + head])),
        scale(1 / std::sqrt(static_cast<double>(in.dk))),
        decayed(before),
        difference(in.v.begin() + in.value_at(row, head), in.v.begin() + in.value_at(row, head) + in.dv) {
    for (double& s : decayed) s *= std::exp(g);
    for (std::int64_t i = 0; i < in.dk; ++i)
      for (std::int64_t j = 0; j < in.dv; ++j) difference[j] -= decayed[i * in.dv + j] * k.x[i];
    state = decayed;
    for (std::int64_t i = 0; i < in.dk; ++i)
      for (std::int64_t j = 0; j < in.dv; ++j) state[i * in.dv + j] += k.x[i] * beta * difference[j];
  }
};

}  // namespace

void ReferenceBackend::execute(const GatedDeltaForward& op, Resources) {
  const Heads in(op);
  Values o(in.v.size()), states = load(op.state);
  const std::int64_t size = in.dk * in.dv;
  for_each_text(op.texts, op.q.rows(), [&](std::int64_t text, std::int64_t first, std::int64_t tokens) {
    for (std::int64_t h = 0; h < in.values; ++h) {
      Values state(static_cast<std::size_t>(size));
      const auto kept = states.begin() + (op.state ? (text * in.values + h) * size : 0);
      if (op.state) std::copy(kept, kept + size, state.begin());
      for (std::int64_t row = first; row < first + tokens; ++row) {
        const Step step(in, row, h, state);
        state = step.state;
        for (std::int64_t i = 0; i < in.dk; ++i)
          for (std::int64_t j = 0; j < in.dv; ++j)
            o[in.value_at(row, h) + j] += state[i * in.dv + j] * step.q.x[i] * step.scale;
      }
      if (op.state) std::copy(state.begin(), state.end(), kept);
    }
  });
  store(o, op.o);
  store(states, op.state);
}

void ReferenceBackend::execute(const GatedDeltaBackward& op, Resources) {
  const Heads in(op);
  const Values dout = load(op.dout);
  Values dq(in.q.size()), dk(in.k.size()), dv(in.v.size()), da(in.a.size()), db(in.b.size());
  Values ddecay = op.accumulate ? load(op.ddecay) : Values(in.decay.size()),
         dbias = op.accumulate ? load(op.dbias) : Values(in.bias.size());
  const std::int64_t width = in.dv;
  for_each_text(op.texts, op.q.rows(), [&](std::int64_t, std::int64_t first, std::int64_t tokens) {
    for (std::int64_t h = 0; h < in.values; ++h) {
      std::vector<Step> steps;
      Values dstate(static_cast<std::size_t>(in.dk * width));
      for (std::int64_t row = first; row < first + tokens; ++row)
        steps.emplace_back(in, row, h, steps.empty() ? dstate : steps.back().state);
      for (std::int64_t row = first + tokens; row-- > first;) {
        const Step& s = steps[static_cast<std::size_t>(row - first)];
        const double* dy = &dout[in.value_at(row, h)];
        Values dunit_q(static_cast<std::size_t>(in.dk)), dunit_k(dunit_q);
        Values dwritten(static_cast<std::size_t>(width));  // of beta (v - S^T k)
        for (std::int64_t i = 0; i < in.dk; ++i)
          for (std::int64_t j = 0; j < width; ++j) {
            dunit_q[i] += s.state[i * width + j] * dy[j] * s.scale;
            dstate[i * width + j] += s.q.x[i] * s.scale * dy[j];
          }
        double dbeta = 0, dg = 0;
        for (std::int64_t i = 0; i < in.dk; ++i)
          for (std::int64_t j = 0; j < width; ++j) {
            dwritten[j] += dstate[i * width + j] * s.k.x[i];
            dunit_k[i] += dstate[i * width + j] * s.beta * s.difference[j];
          }
        for (std::int64_t j = 0; j < width; ++j) {
          dbeta += dwritten[j] * s.difference[j];
          dv[in.value_at(row, h) + j] = s.beta * dwritten[j];
        }
        for (std::int64_t i = 0; i < in.dk; ++i)
          for (std::int64_t j = 0; j < width; ++j) {
            const double dread = -s.beta * dwritten[j];  // of S^T k
            dunit_k[i] += s.decayed[i * width + j] * dread;
            dstate[i * width + j] += s.k.x[i] * dread;
            dg += dstate[i * width + j] * s.decayed[i * width + j];
            dstate[i * width + j] *= std::exp(s.g);
          }
        s.q.backward(dunit_q, &dq[in.key_at(row, h)]);
        s.k.backward(dunit_k, &dk[in.key_at(row, h)]);
        const std::int64_t at = row * in.values + h;
        const double inside = in.a[at] + in.bias[h], slope = -dg * std::exp(in.decay[h]) * logistic(inside);
        da[at] = slope;
        db[at] = dbeta * s.beta * (1 - s.beta);
        ddecay[h] += dg * s.g;
        dbias[h] += slope;
      }
    }
  });
  store(dq, op.dq);
  store(dk, op.dk);
  store(dv, op.dv);
  store(da, op.da);
  store(db, op.db);
  store(ddecay, op.ddecay);
  store(dbias, op.dbias);
}

}  // namespace stoa::ops
