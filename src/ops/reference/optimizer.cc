#include <algorithm>
#include <cmath>

#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"
#include "ops/schedules.h"
#include "ops/step_state.h"

namespace stoa::ops {

namespace {

class State {
 public:
  explicit State(const TensorView& state) : slots_(state.as<double>()) {}
  double& operator[](StepSlot slot) const { return slots_[static_cast<int>(slot)]; }

 private:
  double* slots_;
};

// Megatron's dynamic scaler: every inf lowers the hysteresis by one and, at 0, multiplies the scale by
// backoff; only `window` clean steps in a row restore it, so that infs need not be consecutive.
void adapt_loss_scale(const LossScale& rule, bool found_inf, const State& state) {
  if (found_inf) {
    state[StepSlot::kGoodSteps] = 0;
    state[StepSlot::kHysteresis] -= 1;
    if (state[StepSlot::kHysteresis] <= 0)
      state[StepSlot::kLossScale] = std::max(state[StepSlot::kLossScale] * rule.backoff, rule.minimum);
    return;
  }
  state[StepSlot::kGoodSteps] += 1;
  if (state[StepSlot::kGoodSteps] >= static_cast<double>(rule.window)) {
    state[StepSlot::kGoodSteps] = 0;
    state[StepSlot::kHysteresis] = static_cast<double>(rule.hysteresis);
    state[StepSlot::kLossScale] *= rule.growth;
  }
}

// The compute copy is rounded from the master as stored, so that a copy made from a loaded master is the
// same.
void store_master(const Values& master, const TensorView& to, const TensorView& compute) {
  store(master, to);
  if (compute) store(load(to), compute);
}

}  // namespace

void ReferenceBackend::execute(const BeginStep& op, Resources) {
  const State state(op.state);
  state[StepSlot::kTokens] = op.tokens;
  state[StepSlot::kLossSum] = 0;
  state[StepSlot::kSquares] = 0;
  state[StepSlot::kLossSeed] = op.tokens > 0 ? state[StepSlot::kLossScale] / op.tokens : 0;
}

void ReferenceBackend::execute(const SumSquares& op, Resources) {
  const Values x = load(op.x);
  double* const sums = op.sums.as<double>();
  for (std::int64_t b = 0; b < op.blocks(); ++b) {
    double sum = 0;
    for (std::int64_t i = op.begin(b), end = op.begin(b + 1); i < end; ++i) sum += x[i] * x[i];
    sums[b] += sum;
  }
}

void ReferenceBackend::execute(const AddSquares& op, Resources) {
  const double* const sums = op.sums.as<double>();
  double total = 0;
  for (std::int64_t b = 0; b < op.sums.elements(); ++b) total += sums[b];
  State(op.state)[StepSlot::kSquares] += total;
}

void ReferenceBackend::execute(const PrepareUpdate& op, Resources) {
  const State state(op.state);
  const double scale = state[StepSlot::kLossScale];
  const bool empty = state[StepSlot::kTokens] == 0;
  const bool infinite = !std::isfinite(state[StepSlot::kSquares]);
  const bool skip = empty || infinite;

  const double norm = std::sqrt(state[StepSlot::kSquares]) / scale;
  const double clip = op.max_norm > 0 ? std::min(1.0, op.max_norm / (norm + 1e-6)) : 1.0;
  state[StepSlot::kGradNorm] = norm;
  state[StepSlot::kGradFactor] = skip ? 0.0 : clip / scale;
  state[StepSlot::kFoundInf] = skip ? 1.0 : 0.0;
  state[StepSlot::kLearningRate] = learning_rate(op.rate, state[StepSlot::kSamples]);
  state[StepSlot::kWeightDecay] = weight_decay(op.weight_decay, state[StepSlot::kSamples]);
  if (skip) {
    state[StepSlot::kSkipped] += 1;
  } else {
    state[StepSlot::kUpdates] += 1;
    state[StepSlot::kSamples] += op.samples;
  }
  if (op.loss_scale.dynamic && !empty) adapt_loss_scale(op.loss_scale, infinite, state);
}

void ReferenceBackend::execute(const AdamUpdate& op, Resources) {
  const State state(op.state);
  if (state[StepSlot::kFoundInf] != 0) return;
  const double factor = state[StepSlot::kGradFactor], rate = state[StepSlot::kLearningRate] * op.rate_factor,
               decay = state[StepSlot::kWeightDecay] * op.decay_factor, updates = state[StepSlot::kUpdates];
  const double correction1 = 1 - std::pow(op.beta1, updates), correction2 = 1 - std::pow(op.beta2, updates);
  Values master = load(op.master), m = load(op.m), v = load(op.v);
  const Values gradient = load(op.gradient);
  for (std::size_t i = 0; i < master.size(); ++i) {
    double g = gradient[i] * factor;
    if (!op.decoupled) g += decay * master[i];
    m[i] = op.beta1 * m[i] + (1 - op.beta1) * g;
    v[i] = op.beta2 * v[i] + (1 - op.beta2) * g * g;
    if (op.decoupled) master[i] *= 1 - rate * decay;
    master[i] -= rate * (m[i] / correction1) / (std::sqrt(v[i] / correction2) + op.epsilon);
  }
  store(m, op.m);
  store(v, op.v);
  store_master(master, op.master, op.compute);
}

void ReferenceBackend::execute(const SgdUpdate& op, Resources) {
  const State state(op.state);
  if (state[StepSlot::kFoundInf] != 0) return;
  const double factor = state[StepSlot::kGradFactor], rate = state[StepSlot::kLearningRate] * op.rate_factor,
               decay = state[StepSlot::kWeightDecay] * op.decay_factor;
  Values master = load(op.master), momentum = load(op.momentum);
  const Values gradient = load(op.gradient);
  for (std::size_t i = 0; i < master.size(); ++i) {
    double step = gradient[i] * factor + decay * master[i];
    // Momentum starts at 0, so the first one is the gradient.
    if (!momentum.empty()) step = momentum[i] = op.momentum_factor * momentum[i] + step;
    master[i] -= rate * step;
  }
  store(momentum, op.momentum);
  store_master(master, op.master, op.compute);
}

void ReferenceBackend::execute(const ExpertBiasUpdate& op, Resources) {
  if (State(op.state)[StepSlot::kFoundInf] != 0) return;
  const Values excess = load(op.excess);
  Values bias = load(op.bias);
  for (std::size_t e = 0; e < bias.size(); ++e)
    bias[e] -= excess[e] > 0 ? op.rate : excess[e] < 0 ? -op.rate : 0;
  store(bias, op.bias);
}

// One history at a time, to keep the copies small.
void ReferenceBackend::execute(const AmaxHistoryUpdate& op, Resources) {
  const bool skipped = State(op.state)[StepSlot::kFoundInf] != 0;
  const Values seen = load(op.seen);
  Values amax(seen.size());
  for (std::int64_t n = 0; n < op.history.shape[0]; ++n) {
    const TensorView place = op.history.slice(n, 1);
    Values history = load(place);
    if (!skipped && seen[n] > 0 && std::isfinite(seen[n])) {
      std::copy_backward(history.begin(), history.end() - 1, history.end());
      history.front() = seen[n];
      store(history, place);
    }
    amax[n] = op.most_recent ? history.front() : *std::max_element(history.begin(), history.end());
  }
  store(amax, op.amax);
  store(Values(seen.size()), op.seen);
}

void ReferenceBackend::execute(const MuonMomentum& op, Resources) {
  const State state(op.state);
  if (state[StepSlot::kFoundInf] != 0) return;
  const double factor = state[StepSlot::kGradFactor];
  const Values gradient = load(op.gradient);
  Values momentum = load(op.momentum), direction(momentum.size());
  for (std::size_t i = 0; i < momentum.size(); ++i) {
    const double g = gradient[i] * factor;
    momentum[i] = op.factor * momentum[i] + (1 - op.factor) * g;
    direction[i] = op.nesterov ? op.factor * momentum[i] + (1 - op.factor) * g : momentum[i];
  }
  store(momentum, op.momentum);
  store(direction, op.direction);
}

void ReferenceBackend::execute(const UnitNorm& op, Resources) {
  Values x = load(op.x);
  double squares = 0;
  for (const double value : x) squares += value * value;
  const double scale = 1 / std::max(std::sqrt(squares), UnitNorm::kLeast);
  for (double& value : x) value *= scale;
  store(x, op.y);
}

void ReferenceBackend::execute(const MuonUpdate& op, Resources) {
  const State state(op.state);
  if (state[StepSlot::kFoundInf] != 0) return;
  const double rate = state[StepSlot::kLearningRate],
               keep = 1 - rate * state[StepSlot::kWeightDecay] * op.decay_factor;
  const Values direction = load(op.direction);
  Values master = load(op.master);
  for (std::size_t i = 0; i < master.size(); ++i)
    master[i] = keep * master[i] - rate * op.scale * direction[i];
  store_master(master, op.master, op.compute);
}

}  // namespace stoa::ops
