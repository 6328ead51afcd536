#include "optim/config.h"

#include <array>

#include "base/error.h"

namespace stoa::optim {

using config::EnumName;
using config::Section;

std::span<const EnumName<OptimizerKind>> enum_names(OptimizerKind) {
  // NeMo's fused and distributed Adams are AdamW by default; how they are fused or sharded is not part of the
  // maths.
  static constexpr std::array<EnumName<OptimizerKind>, 7> kNames{{
      {"adamw", OptimizerKind::kAdamW},
      {"adam", OptimizerKind::kAdam},
      {"sgd", OptimizerKind::kSgd},
      {"muon", OptimizerKind::kMuon},
      {"fused_adam", OptimizerKind::kAdamW},
      {"distributed_fused_adam", OptimizerKind::kAdamW},
      {"mcore_distributed_optim", OptimizerKind::kAdamW},
  }};
  return kNames;
}

std::span<const EnumName<MuonScale>> enum_names(MuonScale) {
  static constexpr std::array<EnumName<MuonScale>, 3> kNames{{
      {"spectral", MuonScale::kSpectral},
      {"unit_rms_norm", MuonScale::kUnitRmsNorm},
      {"shape_scaling", MuonScale::kShapeScaling},
  }};
  return kNames;
}

std::span<const EnumName<MuonCoefficients>> enum_names(MuonCoefficients) {
  static constexpr std::array<EnumName<MuonCoefficients>, 2> kNames{{
      {"quintic", MuonCoefficients::kQuintic},
      {"simple", MuonCoefficients::kSimple},
  }};
  return kNames;
}

std::span<const EnumName<LrDecay>> enum_names(LrDecay) {
  static constexpr std::array<EnumName<LrDecay>, 12> kNames{{
      {"CosineAnnealing", LrDecay::kCosine},
      {"WarmupAnnealing", LrDecay::kLinear},
      {"Constant", LrDecay::kConstant},
      {"InverseSquareRootAnnealing", LrDecay::kInverseSquareRoot},
      {"WSD", LrDecay::kWsd},
      {"cosine", LrDecay::kCosine},
      {"linear", LrDecay::kLinear},
      {"LinearAnnealing", LrDecay::kLinear},
      {"WarmupHoldConstant", LrDecay::kConstant},
      {"inverse-square-root", LrDecay::kInverseSquareRoot},
      {"inverse_square_root", LrDecay::kInverseSquareRoot},
      {"WarmupStableDecay", LrDecay::kWsd},
  }};
  return kNames;
}

std::span<const EnumName<WsdDecay>> enum_names(WsdDecay) {
  static constexpr std::array<EnumName<WsdDecay>, 4> kNames{{
      {"exponential", WsdDecay::kExponential},
      {"linear", WsdDecay::kLinear},
      {"cosine", WsdDecay::kCosine},
      {"minus_sqrt", WsdDecay::kMinusSqrt},
  }};
  return kNames;
}

std::span<const EnumName<WeightDecayStyle>> enum_names(WeightDecayStyle) {
  static constexpr std::array<EnumName<WeightDecayStyle>, 3> kNames{{
      {"constant", WeightDecayStyle::kConstant},
      {"linear", WeightDecayStyle::kLinear},
      {"cosine", WeightDecayStyle::kCosine},
  }};
  return kNames;
}

namespace {

constexpr double kMaxSteps = 1e12;

void declare_sched(Section<SchedConfig>& s) {
  using C = SchedConfig;
  s.field("name", &C::name).help("Shape of the decay after the warm-up (WarmupAnnealing is linear).");
  s.field("warmup_steps", &C::warmup_steps)
      .range(0, kMaxSteps)
      .unit("steps")
      .derived("0, or from warmup_ratio")
      .help("Steps of linear warm-up.");
  s.field("warmup_ratio", &C::warmup_ratio)
      .range(0, 1)
      .help("Warm-up as a share of the steps of decay, instead of warmup_steps.");
  s.field("warmup_init_lr", &C::warmup_init_lr)
      .range(0, 10)
      .help("Learning rate at which the warm-up begins.");
  s.field("constant_steps", &C::constant_steps)
      .range(0, kMaxSteps)
      .unit("steps")
      .help("Steps at the end that stay at min_lr: the decay ends that much earlier.");
  s.field("min_lr", &C::min_lr).range(0, 10).help("Learning rate where the decay ends.");
  s.field("decay_steps", &C::decay_steps)
      .range(1, kMaxSteps)
      .unit("steps")
      .alias("max_steps")
      .derived("trainer.max_steps - constant_steps")
      .help("Step at which the decay ends.");
  s.field("wsd_decay_steps", &C::wsd_decay_steps)
      .range(1, kMaxSteps)
      .unit("steps")
      .help("WSD: steps of the final decay.");
  s.field("wsd_decay_style", &C::wsd_decay_style).help("WSD: shape of the final decay.");
  s.validate({"warmup_steps", "warmup_ratio"}, [](const C& c) {
    require<ConfigError>(!c.warmup_steps || !c.warmup_ratio, "give warmup_steps or warmup_ratio, not both");
  });
  s.validate({"name", "wsd_decay_steps"}, [](const C& c) {
    require<ConfigError>(c.name != LrDecay::kWsd || c.wsd_decay_steps, "WSD needs wsd_decay_steps");
    require<ConfigError>(c.name == LrDecay::kWsd || !c.wsd_decay_steps,
                         "wsd_decay_steps is used only with name WSD");
  });
  s.validate({"warmup_steps", "decay_steps"}, [](const C& c) {
    const std::int64_t warmup = c.warmup_steps.value_or(0);
    require<ConfigError>(!c.decay_steps || warmup <= *c.decay_steps,
                         "warmup_steps {} is more than decay_steps {}", warmup, c.decay_steps.value_or(0));
  });
}

}  // namespace

void declare(Section<OptimConfig>& s) {
  using C = OptimConfig;
  s.field("name", &C::name)
      .help(
          "adamw: decoupled weight decay; adam: decay added to the gradient; sgd: with momentum; muon: "
          "orthogonalised momentum for the layers' matrices, adamw for the rest. NeMo's fused and "
          "distributed "
          "names mean adamw.");
  s.field("lr", &C::lr).range(0, 10).help("Peak learning rate.");
  s.field("weight_decay", &C::weight_decay)
      .range(0, 10)
      .nemo_default("0.01")
      .help("Weight decay; not on biases and norms.");
  s.field("betas", &C::betas)
      .length(2)
      .range(0, 1)
      .below(1)
      .help("Decay of the first and second moment (adamw, adam).");
  s.field("eps", &C::eps).above(0).range(0, 1).help("Added to the root of the second moment.");
  s.field("momentum", &C::momentum).range(0, 1).below(1).help("Momentum of sgd.");
  s.field("muon_momentum", &C::muon_momentum).range(0, 1).below(1).help("Momentum of muon.");
  s.field("muon_use_nesterov", &C::muon_use_nesterov).help("Muon: Nesterov's form of the momentum.");
  s.field("muon_num_ns_steps", &C::muon_num_ns_steps)
      .range(1, 100)
      .unit("steps")
      .help("Muon: Newton-Schulz steps that make the momentum nearly orthogonal.");
  s.field("muon_coefficient_type", &C::muon_coefficient_type)
      .help("Muon: polynomials of these steps: five that belong together, or one for all.");
  s.field("muon_scale_mode", &C::muon_scale_mode)
      .help(
          "Muon: factor of the learning rate of a matrix [m, n]: the root of max(m, n), of m / n, or of "
          "max(1, m / n).");
  s.field("muon_extra_scale_factor", &C::muon_extra_scale_factor)
      .above(0)
      .range(0, 1e6)
      .help("Muon: further factor (0.2 with spectral gives updates as large as Adam's).");
  s.field("start_weight_decay", &C::start_weight_decay)
      .range(0, 10)
      .derived("weight_decay")
      .help("Weight decay at the first step.");
  s.field("end_weight_decay", &C::end_weight_decay)
      .range(0, 10)
      .derived("weight_decay")
      .help("Weight decay at the last step.");
  s.field("weight_decay_incr_style", &C::weight_decay_incr_style)
      .help("How weight decay changes from start to end.");
  s.section("sched", &C::sched, declare_sched, "Learning rate over steps.");
  s.validate({"lr", "sched.min_lr"}, [](const C& c) {
    require<ConfigError>(c.sched.min_lr <= c.lr, "min_lr {} is above lr {}", c.sched.min_lr, c.lr);
  });
  s.validate({"weight_decay_incr_style", "start_weight_decay", "end_weight_decay"}, [](const C& c) {
    const bool both = c.start_weight_decay && c.end_weight_decay,
               any = c.start_weight_decay || c.end_weight_decay;
    const bool constant = c.weight_decay_incr_style == WeightDecayStyle::kConstant;
    require<ConfigError>(constant || both,
                         "this weight_decay_incr_style needs start_weight_decay and end_weight_decay");
    require<ConfigError>(!constant || !any,
                         "start_weight_decay and end_weight_decay are used only with weight_decay_incr_style "
                         "linear or cosine");
  });
}

}  // namespace stoa::optim
