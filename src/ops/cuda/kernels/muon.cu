#include <cmath>

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/muon.h"
#include "ops/cuda/kernels/pack.h"
#include "ops/cuda/kernels/step_slot.h"

namespace stoa::ops::cuda {
namespace {

constexpr int kBlock = 256;
constexpr int kPieces = 4;  // packs per thread

// Calls Formula::apply<W>(args, scalars, i) for all elements; the scalars are made once per block and none of
// it happens where they say so.
template <class Formula, int V>
struct ElementKernel {
  using Args = typename Formula::Args;
  static constexpr const char* kName = Formula::kName;
  static constexpr int kThreads = kBlock;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    auto* shared = t.shared<Formula>();
    if (t.index() == 0) *shared = Formula::of(a);
    t.sync();
    const Formula formula = *shared;
    if (formula.skip) return;
    for (int k = 0; k < kPieces; ++k) {
      const std::int64_t i = ((t.block_x() * kPieces + k) * t.count() + t.index()) * V;
      if (i + V <= a.count) {
        formula.template apply<V>(a, i);
      } else {
        for (std::int64_t j = i; j < a.count; ++j) formula.template apply<1>(a, j);
      }
    }
  }
};

template <class Formula>
void launch_elements(const typename Formula::Args& a, void* stream) {
  with_width(a.wide, [&](auto v) {
    constexpr int kV = decltype(v)::value;
    launch<ElementKernel<Formula, kV>>({.x = ceil_div(a.count, std::int64_t{kBlock} * kPieces * kV),
                                        .threads = kBlock,
                                        .shared = sizeof(Formula)},
                                       stream, a);
  });
}

struct Momentum {
  using Args = MuonMomentumArgs;
  static constexpr const char* kName = "muon momentum";
  float keep, part;  // of the momentum, of the gradient
  int skip;

  STOA_DEVICE static Momentum of(const Args& a) {
    return {static_cast<float>(a.factor),
            static_cast<float>((1 - a.factor) * slot(a.state, StepSlot::kGradFactor)),
            slot(a.state, StepSlot::kFoundInf) != 0};
  }
  template <int W>
  STOA_DEVICE void apply(const Args& a, std::int64_t i) const {
    float g[W], m[W];
    load_pack<W>(a.gradient + i, g);
    load_pack<W>(a.momentum + i, m);
    STOA_UNROLL
    for (int j = 0; j < W; ++j) {
      g[j] *= part;
      m[j] = fmaf(keep, m[j], g[j]);
      g[j] = a.nesterov ? fmaf(keep, m[j], g[j]) : m[j];
    }
    store_pack<W>(a.momentum + i, m);
    store_pack<W>(a.direction + i, g);
  }
};

template <class C>
struct Update {
  using Args = MuonUpdateArgs;
  static constexpr const char* kName = "muon update";
  float keep, step;
  int skip;

  STOA_DEVICE static Update of(const Args& a) {
    const double rate = slot(a.state, StepSlot::kLearningRate);
    return {static_cast<float>(1 - rate * slot(a.state, StepSlot::kWeightDecay) * a.decay_factor),
            static_cast<float>(rate * a.scale), slot(a.state, StepSlot::kFoundInf) != 0};
  }
  template <int W>
  STOA_DEVICE void apply(const Args& a, std::int64_t i) const {
    float master[W], direction[W];
    load_pack<W>(a.master + i, master);
    load_pack<W>(a.direction + i, direction);
    STOA_UNROLL
    for (int j = 0; j < W; ++j) master[j] = fmaf(-step, direction[j], keep * master[j]);
    store_pack<W>(a.master + i, master);
    if (a.compute) store_pack<W>(static_cast<C*>(a.compute) + i, master);
  }
};

struct UnitScale {
  using Args = UnitScaleArgs;
  static constexpr const char* kName = "unit norm";
  float scale;
  int skip;

  STOA_DEVICE static UnitScale of(const Args& a) {
    const double norm = sqrt(*a.squares);
    return {static_cast<float>(1 / (norm > a.least || norm != norm ? norm : a.least)), 0};
  }
  template <int W>
  STOA_DEVICE void apply(const Args& a, std::int64_t i) const {
    float x[W];
    load_pack<W>(a.x + i, x);
    STOA_UNROLL
    for (int j = 0; j < W; ++j) x[j] *= scale;
    store_pack<W>(a.y + i, x);
  }
};

}  // namespace

void launch_muon_momentum(const MuonMomentumArgs& a, void* stream) { launch_elements<Momentum>(a, stream); }

void launch_muon_update(const MuonUpdateArgs& a, void* stream) {
  with_fast_type(a.compute_type,
                 [&](auto compute) { launch_elements<Update<decltype(compute)>>(a, stream); });
}

void launch_unit_scale(const UnitScaleArgs& a, void* stream) { launch_elements<UnitScale>(a, stream); }

}  // namespace stoa::ops::cuda
