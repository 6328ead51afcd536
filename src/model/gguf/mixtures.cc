#include "model/gguf/mixtures.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/error.h"
#include "base/nearest.h"

namespace stoa::model::gguf {
namespace {

using quant::BlockType;

constexpr Mixture plain(std::string_view name, BlockType type, std::uint32_t file_type) {
  return {name, type, type, type, file_type};
}
// Of fewer than six bits: the output matrix has Q6_K.
constexpr Mixture low(std::string_view name, BlockType type, std::uint32_t file_type) {
  return {name, type, BlockType::kQ6_K, type, file_type};
}

constexpr std::array kMixtures{plain("f32", BlockType::kF32, 0),
                               plain("f16", BlockType::kF16, 1),
                               plain("bf16", BlockType::kBF16, 32),
                               plain("q8_0", BlockType::kQ8_0, 7),
                               plain("q6_k", BlockType::kQ6_K, 18),
                               Mixture{"q5_k_m", BlockType::kQ5_K, BlockType::kQ6_K, BlockType::kQ6_K, 17},
                               low("q5_k_s", BlockType::kQ5_K, 16),
                               Mixture{"q4_k_m", BlockType::kQ4_K, BlockType::kQ6_K, BlockType::kQ6_K, 15},
                               low("q4_k_s", BlockType::kQ4_K, 14),
                               low("q3_k_s", BlockType::kQ3_K, 11),
                               low("q2_k", BlockType::kQ2_K, 10),
                               low("q5_1", BlockType::kQ5_1, 9),
                               low("q5_0", BlockType::kQ5_0, 8),
                               low("q4_1", BlockType::kQ4_1, 3),
                               low("q4_0", BlockType::kQ4_0, 2),
                               low("iq4_nl", BlockType::kIQ4_NL, 25),
                               low("iq4_xs", BlockType::kIQ4_XS, 30),
                               low("mxfp4", BlockType::kMXFP4, 38)};

// A format with blocks of 32 for rows that are not whole blocks of 256.
BlockType smaller(BlockType type) {
  switch (type) {
    case BlockType::kQ6_K:
      return BlockType::kQ8_0;
    case BlockType::kQ5_K:
      return BlockType::kQ5_1;
    case BlockType::kQ4_K:
      return BlockType::kQ5_0;
    default:
      return BlockType::kIQ4_NL;
  }
}

// The layer of "blk.3.attn_v.weight", -1 of others.
std::int64_t layer_of(std::string_view name) {
  constexpr std::string_view kStem = "blk.";
  std::int64_t layer = -1;
  if (name.starts_with(kStem)) std::from_chars(name.data() + kStem.size(), name.data() + name.size(), layer);
  return layer;
}

// The first and last eighth of the layers, and every third in between.
bool has_more_bits(std::int64_t layer, std::int64_t layers) {
  return layer < layers / 8 || layer >= 7 * layers / 8 || (layer - layers / 8) % 3 == 2;
}

bool stays_exact(const TensorPlace& place) {
  const auto is = [&](std::string_view part) { return place.name.find(part) != std::string_view::npos; };
  return place.shape.size() < 2 || is("_norm.") || is("ffn_gate_inp") || is("position_embd");
}

BlockType wanted_type(const Mixture& mixture, const TensorPlace& place) {
  if (stays_exact(place)) return BlockType::kF32;
  if (place.name == "output.weight" || (place.tied && place.name == "token_embd.weight"))
    return mixture.output;
  const bool matters = place.name.find(".attn_v.") != std::string_view::npos ||
                       place.name.find(".ffn_down") != std::string_view::npos;
  return matters && has_more_bits(layer_of(place.name), place.layers) ? mixture.some : mixture.most;
}

}  // namespace

std::vector<std::string> mixture_names() {
  std::vector<std::string> out;
  for (const Mixture& each : kMixtures) out.emplace_back(each.name);
  return out;
}

const Mixture& mixture(std::string_view name) {
  for (const Mixture& each : kMixtures)
    if (each.name == name) return each;
  const auto names = mixture_names();
  fail<ConfigError>("'{}' is no format of GGUF files that is written{}; known: {}", name,
                    did_you_mean(name, names), fmt::join(names, ", "));
}

const quant::BlockFormat& format_of(const Mixture& mixture, const TensorPlace& place) {
  const quant::BlockFormat* format = &quant::format_of(wanted_type(mixture, place));
  const std::int64_t columns = place.shape.back();
  if (columns % format->numbers != 0 && format->numbers > 32)
    format = &quant::format_of(smaller(format->type));
  if (columns % format->numbers != 0) format = &quant::format_of(BlockType::kF16);
  return *format;
}

}  // namespace stoa::model::gguf
