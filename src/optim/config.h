// Configuration of the optimizer and its schedules: the keys of NeMo under `model.optim`.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "config/schema.h"

namespace stoa::optim {

enum class OptimizerKind { kAdamW, kAdam, kSgd, kMuon };
enum class MuonScale { kSpectral, kUnitRmsNorm, kShapeScaling };
enum class MuonCoefficients { kQuintic, kSimple };
enum class LrDecay { kCosine, kLinear, kConstant, kInverseSquareRoot, kWsd };
enum class WsdDecay { kExponential, kLinear, kCosine, kMinusSqrt };
enum class WeightDecayStyle { kConstant, kLinear, kCosine };

std::span<const config::EnumName<OptimizerKind>> enum_names(OptimizerKind);
std::span<const config::EnumName<MuonScale>> enum_names(MuonScale);
std::span<const config::EnumName<MuonCoefficients>> enum_names(MuonCoefficients);
std::span<const config::EnumName<LrDecay>> enum_names(LrDecay);
std::span<const config::EnumName<WsdDecay>> enum_names(WsdDecay);
std::span<const config::EnumName<WeightDecayStyle>> enum_names(WeightDecayStyle);

// Learning rate over steps of the global batch.
struct SchedConfig {
  LrDecay name = LrDecay::kCosine;
  std::optional<std::int64_t> warmup_steps;
  std::optional<double> warmup_ratio;  // of the steps of decay; instead of warmup_steps
  double warmup_init_lr = 0.0;         // where warm-up begins
  std::int64_t constant_steps = 0;     // at the end, flat at min_lr: decay ends that much earlier
  double min_lr = 0.0;
  std::optional<std::int64_t> decay_steps;      // where decay ends; null: max_steps - constant_steps
  std::optional<std::int64_t> wsd_decay_steps;  // WSD: length of the final decay
  WsdDecay wsd_decay_style = WsdDecay::kExponential;
};

struct OptimConfig {
  OptimizerKind name = OptimizerKind::kAdamW;
  double lr = 6e-4;           // peak
  double weight_decay = 0.1;  // not on biases and norms
  std::vector<double> betas = {0.9, 0.95};
  double eps = 1e-8;
  double momentum = 0.9;  // sgd
  // Muon; what it does not update, AdamW does.
  double muon_momentum = 0.95;
  bool muon_use_nesterov = true;
  std::int64_t muon_num_ns_steps = 5;
  MuonCoefficients muon_coefficient_type = MuonCoefficients::kQuintic;
  MuonScale muon_scale_mode = MuonScale::kSpectral;
  double muon_extra_scale_factor = 1.0;
  std::optional<double> start_weight_decay, end_weight_decay;
  WeightDecayStyle weight_decay_incr_style = WeightDecayStyle::kConstant;
  SchedConfig sched;
};

void declare(config::Section<OptimConfig>& s);

}  // namespace stoa::optim
