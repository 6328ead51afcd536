#include "model/fp8_config.h"

#include <array>

#include "base/error.h"

namespace stoa::model {

std::span<const config::EnumName<Fp8Format>> enum_names(Fp8Format) {
  static constexpr std::array<config::EnumName<Fp8Format>, 3> kNames{
      {{"e4m3", Fp8Format::kE4M3}, {"hybrid", Fp8Format::kHybrid}, {"false", Fp8Format::kOff}}};
  return kNames;
}

std::span<const config::EnumName<Fp8Recipe>> enum_names(Fp8Recipe) {
  static constexpr std::array<config::EnumName<Fp8Recipe>, 2> kNames{
      {{"tensorwise", Fp8Recipe::kTensorwise}, {"delayed", Fp8Recipe::kDelayed}}};
  return kNames;
}

std::span<const config::EnumName<Fp8AmaxAlgorithm>> enum_names(Fp8AmaxAlgorithm) {
  static constexpr std::array<config::EnumName<Fp8AmaxAlgorithm>, 2> kNames{
      {{"max", Fp8AmaxAlgorithm::kMax}, {"most_recent", Fp8AmaxAlgorithm::kMostRecent}}};
  return kNames;
}

bool Fp8Config::covers(std::int64_t layer, std::int64_t layers) const {
  if (!fp8) return false;
  return !first_last_layers_bf16 ||
         (layer >= num_layers_at_start_in_bf16 && layer < layers - num_layers_at_end_in_bf16);
}

void declare_fp8(config::Section<Fp8Config>& s) {
  using C = Fp8Config;
  s.field("fp8", &C::fp8)
      .help(
          "FP8 GEMMs in the linear layers of attention, MLP and experts during training; embedding, head, "
          "norms, core attention and routers stay in compute precision. hybrid: E4M3 forward, E5M2 for "
          "gradients; e4m3: E4M3 for both.");
  s.field("fp8_recipe", &C::fp8_recipe)
      .help(
          "tensorwise: the scale of a tensor follows from its current largest magnitude (amax). delayed: "
          "from the amax of previous steps.");
  s.field("fp8_margin", &C::fp8_margin).range(0, 16).help("Scales are 2^fp8_margin times smaller.");
  s.field("fp8_amax_history_len", &C::fp8_amax_history_len)
      .range(1, 65536)
      .help("Length in steps of the amax history of delayed scaling.");
  s.field("fp8_amax_compute_algo", &C::fp8_amax_compute_algo)
      .help("Which amax of those steps gives the scale: the largest (max) or the latest (most_recent).");
  s.field("fp8_wgrad", &C::fp8_wgrad).help("FP8 for weight gradients too; false: compute precision.");
  s.field("first_last_layers_bf16", &C::first_last_layers_bf16)
      .help("The first and last layers of the model stay in compute precision.");
  s.field("num_layers_at_start_in_bf16", &C::num_layers_at_start_in_bf16)
      .at_least(0)
      .help("Number of first layers for first_last_layers_bf16.");
  s.field("num_layers_at_end_in_bf16", &C::num_layers_at_end_in_bf16)
      .at_least(0)
      .help("Number of last layers for first_last_layers_bf16.");
  s.resolve([](C& c) {
    if (c.fp8 == Fp8Format::kOff) c.fp8.reset();
  });
}

}  // namespace stoa::model
