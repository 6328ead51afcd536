// Configuration of 8-bit linear layers: the keys of NeMo and Megatron under `model` (nn/fp8.h).
#pragma once

#include <cstdint>
#include <optional>

#include "config/schema.h"

namespace stoa::model {

// kE4M3: of all that is quantized; kHybrid: gradients are E5M2. kOff is how NeMo's files say null.
enum class Fp8Format { kE4M3, kHybrid, kOff };
// kTensorwise: of the present tensor; kDelayed: of earlier steps.
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
  // Whether a layer of `layers` has 8-bit products.
  bool covers(std::int64_t layer, std::int64_t layers) const;
};

void declare_fp8(config::Section<Fp8Config>& s);

}  // namespace stoa::model
