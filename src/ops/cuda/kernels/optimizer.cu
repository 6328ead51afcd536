#include <cmath>

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/optimizer.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/reduce.h"
#include "ops/cuda/kernels/step_slot.h"
#include "ops/schedule_formulas.h"

namespace stoa::ops::cuda {
namespace {

struct BeginStepKernel {
  using Args = BeginStepArgs;
  static constexpr const char* kName = "begin step";
  static constexpr int kThreads = 32;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    if (t.index() != 0) return;
    slot(a.state, StepSlot::kTokens) = a.tokens;
    slot(a.state, StepSlot::kLossSum) = 0;
    slot(a.state, StepSlot::kSquares) = 0;
    slot(a.state, StepSlot::kLossSeed) = a.tokens > 0 ? slot(a.state, StepSlot::kLossScale) / a.tokens : 0.0;
  }
};

constexpr int kSquaresThreads = 512;

// A block sums the elements of x within one block of the canonical tensor.
template <int V>
struct SquaresKernel {
  using Args = SumSquaresArgs;
  static constexpr const char* kName = "sum squares";
  static constexpr int kThreads = kSquaresThreads;

  // How many elements of x come before its b-th block.
  STOA_DEVICE static std::int64_t begin_of(const Args& a, std::int64_t b) {
    const std::int64_t j = (a.first_block + b) * kSquaresBlock - a.origin;
    if (j <= 0) return 0;
    const std::int64_t column = j % a.pitch;
    const std::int64_t before = j / a.pitch * a.width + (column < a.width ? column : a.width) - a.skip;
    return before < 0 ? 0 : before > a.count ? a.count : before;
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    const std::int64_t begin = begin_of(a, t.block_x()), end = begin_of(a, t.block_x() + 1);
    double sum = 0;
    const auto add = [&](std::int64_t i) {
      sum += static_cast<double>(a.x[i]) * static_cast<double>(a.x[i]);
    };
    // Whole packs begin at multiples of V.
    std::int64_t first = (begin + V - 1) / V * V;
    if (first > end) first = end;
    const std::int64_t last = first + (end - first) / V * V;
    for (std::int64_t i = begin + t.index(); i < first; i += t.count()) add(i);
    for (std::int64_t i = first + std::int64_t{t.index()} * V; i < last; i += std::int64_t{t.count()} * V) {
      float x[V];
      load_pack<V>(a.x + i, x);
      STOA_UNROLL
      for (int j = 0; j < V; ++j) sum += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    }
    for (std::int64_t i = last + t.index(); i < end; i += t.count()) add(i);
    sum = block_reduce<Add>(t, sum, t.shared<double>());
    if (t.index() == 0) a.sums[t.block_x()] += sum;
  }
};

struct AddSquaresKernel {
  using Args = AddSquaresArgs;
  static constexpr const char* kName = "add squares";
  static constexpr int kThreads = kSquaresThreads;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    double sum = 0;
    for (std::int64_t b = t.index(); b < a.count; b += t.count()) sum += a.sums[b];
    sum = block_reduce<Add>(t, sum, t.shared<double>());
    if (t.index() == 0) *a.total += sum;
  }
};

struct PrepareKernel {
  using Args = PrepareArgs;
  static constexpr const char* kName = "prepare update";
  static constexpr int kThreads = 32;

  // Megatron's dynamic loss scaling, as in the reference backend.
  STOA_DEVICE static void adapt(const LossScaleArgs& rule, bool found_inf, double* state) {
    double &good = slot(state, StepSlot::kGoodSteps), &hysteresis = slot(state, StepSlot::kHysteresis),
           &scale = slot(state, StepSlot::kLossScale);
    if (found_inf) {
      good = 0;
      hysteresis -= 1;
      if (hysteresis <= 0) scale = scale * rule.backoff > rule.minimum ? scale * rule.backoff : rule.minimum;
      return;
    }
    good += 1;
    if (good >= static_cast<double>(rule.window)) {
      good = 0;
      hysteresis = static_cast<double>(rule.hysteresis);
      scale *= rule.growth;
    }
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    if (t.index() != 0) return;
    double* s = a.state;
    const double scale = slot(s, StepSlot::kLossScale), squares = slot(s, StepSlot::kSquares);
    const bool empty = slot(s, StepSlot::kTokens) == 0;
    const bool infinite = !(squares - squares == 0);  // infinity or NaN
    const bool skip = empty || infinite;
    const double norm = sqrt(squares) / scale;
    double clip = 1;
    if (a.max_norm > 0 && !(a.max_norm / (norm + 1e-6) >= 1)) clip = a.max_norm / (norm + 1e-6);
    slot(s, StepSlot::kGradNorm) = norm;
    slot(s, StepSlot::kGradFactor) = skip ? 0.0 : clip / scale;
    slot(s, StepSlot::kFoundInf) = skip ? 1.0 : 0.0;
    slot(s, StepSlot::kLearningRate) = rate_at(a.rate, slot(s, StepSlot::kSamples));
    slot(s, StepSlot::kWeightDecay) = decay_at(a.weight_decay, slot(s, StepSlot::kSamples));
    if (skip) {
      slot(s, StepSlot::kSkipped) += 1;
    } else {
      slot(s, StepSlot::kUpdates) += 1;
      slot(s, StepSlot::kSamples) += a.samples;
    }
    if (a.loss_scale.dynamic && !empty) adapt(a.loss_scale, infinite, s);
  }
};

// Scalars of an update, computed once per block.
struct Scalars {
  float factor, step, correction2, keep, decay, rate;
  int skip;
};

constexpr int kUpdateThreads = 256;
constexpr int kPieces = 4;  // packs per thread

template <class C, int V, bool kAdam>
struct UpdateKernel {
  using Args = UpdateArgs;
  static constexpr const char* kName = kAdam ? "adam update" : "sgd update";
  static constexpr int kThreads = kUpdateThreads;

  STOA_DEVICE static Scalars scalars(const Args& a) {
    const double rate = slot(a.state, StepSlot::kLearningRate) * a.rate_factor;
    const double decay = slot(a.state, StepSlot::kWeightDecay) * a.decay_factor;
    Scalars s{};
    s.skip = slot(a.state, StepSlot::kFoundInf) != 0;
    s.factor = static_cast<float>(slot(a.state, StepSlot::kGradFactor));
    s.rate = static_cast<float>(rate);
    s.keep = 1;
    s.decay = static_cast<float>(decay);
    if constexpr (kAdam) {
      const double updates = slot(a.state, StepSlot::kUpdates);
      s.step = static_cast<float>(rate / (1 - pow(a.beta1, updates)));
      s.correction2 = static_cast<float>(1 / sqrt(1 - pow(a.beta2, updates)));
      if (a.decoupled) {
        s.keep = static_cast<float>(1 - rate * decay);
        s.decay = 0;
      }
    }
    return s;
  }

  template <int W>
  STOA_DEVICE static void piece(const Args& a, const Scalars& s, std::int64_t i) {
    float master[W], g[W], m[W];
    load_pack<W>(a.master + i, master);
    load_pack<W>(a.gradient + i, g);
    if (a.m) load_pack<W>(a.m + i, m);
    if constexpr (kAdam) {
      const auto beta1 = static_cast<float>(a.beta1), beta2 = static_cast<float>(a.beta2);
      const auto other1 = static_cast<float>(1 - a.beta1), other2 = static_cast<float>(1 - a.beta2);
      const auto epsilon = static_cast<float>(a.epsilon);
      float v[W];
      load_pack<W>(a.v + i, v);
      STOA_UNROLL
      for (int j = 0; j < W; ++j) {
        g[j] = fmaf(s.decay, master[j], g[j] * s.factor);
        m[j] = fmaf(beta1, m[j], g[j] * other1);
        v[j] = fmaf(beta2, v[j], g[j] * g[j] * other2);
        const float root = fmaf(sqrtf(v[j]), s.correction2, epsilon);
        master[j] = master[j] * s.keep - m[j] * s.step / root;
      }
      store_pack<W>(a.v + i, v);
    } else {
      STOA_UNROLL
      for (int j = 0; j < W; ++j) {
        float step = fmaf(s.decay, master[j], g[j] * s.factor);
        if (a.m) m[j] = step = fmaf(static_cast<float>(a.momentum), m[j], step);
        master[j] = fmaf(-s.rate, step, master[j]);
      }
    }
    if (a.m) store_pack<W>(a.m + i, m);
    store_pack<W>(a.master + i, master);
    if (a.compute) store_pack<W>(static_cast<C*>(a.compute) + i, master);
  }

  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* shared = t.shared<Scalars>();
    if (t.index() == 0) *shared = scalars(a);
    t.sync();
    const Scalars s = *shared;
    if (s.skip) return;
    for (int k = 0; k < kPieces; ++k) {
      const std::int64_t i = ((t.block_x() * kPieces + k) * t.count() + t.index()) * V;
      if (i + V <= a.count) {
        piece<V>(a, s, i);
      } else {
        for (std::int64_t j = i; j < a.count; ++j) piece<1>(a, s, j);
      }
    }
  }
};

template <bool kAdam>
void launch_update(const UpdateArgs& a, void* stream) {
  with_fast_type(a.compute_type, [&](auto compute) {
    with_width(a.wide, [&](auto v) {
      constexpr int kV = decltype(v)::value;
      launch<UpdateKernel<decltype(compute), kV, kAdam>>(
          {.x = ceil_div(a.count, std::int64_t{kUpdateThreads} * kPieces * kV),
           .threads = kUpdateThreads,
           .shared = sizeof(Scalars)},
          stream, a);
    });
  });
}

}  // namespace

void launch_begin_step(const BeginStepArgs& a, void* stream) {
  launch<BeginStepKernel>({.threads = 32}, stream, a);
}

void launch_sum_squares(const SumSquaresArgs& a, void* stream) {
  with_width(a.wide, [&](auto v) {
    launch<SquaresKernel<decltype(v)::value>>(
        {.x = a.blocks, .threads = kSquaresThreads, .shared = kSquaresThreads / 32 * sizeof(double)}, stream,
        a);
  });
}

void launch_add_squares(const AddSquaresArgs& a, void* stream) {
  launch<AddSquaresKernel>({.threads = kSquaresThreads, .shared = kSquaresThreads / 32 * sizeof(double)},
                           stream, a);
}

void launch_prepare_update(const PrepareArgs& a, void* stream) {
  launch<PrepareKernel>({.threads = 32}, stream, a);
}

void launch_adam(const UpdateArgs& a, void* stream) { launch_update<true>(a, stream); }
void launch_sgd(const UpdateArgs& a, void* stream) { launch_update<false>(a, stream); }

}  // namespace stoa::ops::cuda
