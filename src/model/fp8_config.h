// Configuration of FP8 linear layers: the keys of NeMo and Megatron under `model` (nn/fp8.h).
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema.h"

namespace stoa::model {

// kE4M3: for everything that is quantized; kHybrid: E5M2 for gradients. kOff represents null in NeMo's files.
enum class Fp8Format { kE4M3, kHybrid, kOff };
// kTensorwise: scales from the current tensor; kDelayed: from earlier steps.
enum class Fp8Recipe { kTensorwise, kDelayed };
enum class Fp8AmaxAlgorithm { kMax, kMostRecent };

std::span<const config::EnumName<Fp8Format>> enum_names(Fp8Format);
std::span<const config::EnumName<Fp8Recipe>> enum_names(Fp8Recipe);
std::span<const config::EnumName<Fp8AmaxAlgorithm>> enum_names(Fp8AmaxAlgorithm);

struct Fp8Config {
  std::optional<Fp8Format> fp8;  // never kOff once read
  Fp8Recipe fp8_recipe = Fp8Recipe::kTensorwise;
  std::int64_t fp8_margin = 0;
  std::int64_t fp8_amax_history_len = 1024;
  Fp8AmaxAlgorithm fp8_amax_compute_algo = Fp8AmaxAlgorithm::kMax;
  bool fp8_wgrad = true;
  bool first_last_layers_bf16 = false;
  std::int64_t num_layers_at_start_in_bf16 = 1, num_layers_at_end_in_bf16 = 1;

  bool delayed() const { return fp8 && fp8_recipe == Fp8Recipe::kDelayed; }
  // Whether the GEMMs of layer `layer`, out of `layers`, are in FP8.
  bool covers(std::int64_t layer, std::int64_t layers) const;
};

void declare_fp8(config::Section<Fp8Config>& s);

}  // namespace stoa::model
