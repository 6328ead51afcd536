// Texts as a model with virtual tokens (nn/adapter_policy.h) reads them.
#pragma once

#include <numeric>
#include <span>
#include <vector>

#include "infer/engine/pass_plan.h"

namespace stoa::infer {

// The virtual tokens of an adapter, whose ids follow the vocabulary, and then the text.
inline std::vector<std::int32_t> with_virtual_tokens(const PassLimits& limits,
                                                     std::span<const std::int32_t> text, int adapter = 0) {
  std::vector<std::int32_t> out(static_cast<std::size_t>(limits.virtual_of(adapter)));
  std::iota(out.begin(), out.end(), static_cast<std::int32_t>(limits.vocabulary));
  out.insert(out.end(), text.begin(), text.end());
  return out;
}

}  // namespace stoa::infer
