#include "serve/load_policy.h"

#include <algorithm>
#include <tuple>

namespace stoa::serve {
namespace {

// The models that must leave so that `bytes` fit: idle ones first, then by their last use.
std::vector<std::size_t> make_room(std::span<const OfferedState> models, double memory, double bytes) {
  double used = 0;
  std::vector<std::size_t> candidates, out;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (!models[i].loaded) continue;
    used += models[i].bytes;
    if (!models[i].stays) candidates.push_back(i);
  }
  const auto order = [&](std::size_t i) { return std::tuple(models[i].in_use > 0, models[i].last_used, i); };
  std::sort(candidates.begin(), candidates.end(),
            [&](std::size_t a, std::size_t b) { return order(a) < order(b); });
  for (const std::size_t i : candidates) {
    if (used + bytes <= memory) break;
    used -= models[i].bytes;
    out.push_back(i);
  }
  return out;
}

}  // namespace

LoadDecision decide_loads(std::span<const OfferedState> models, const LoadRules& rules, double now) {
  LoadDecision out;
  double staying = 0;  // bytes that never become free
  for (const OfferedState& model : models)
    if (model.loaded && model.stays) staying += model.bytes;
  std::optional<std::size_t> next;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (models[i].loaded || models[i].waiting == 0) continue;
    if (staying + models[i].bytes > rules.memory)
      out.too_large.push_back(i);
    else if (!next || models[i].waiting_since < models[*next].waiting_since)
      next = i;
  }
  std::vector<std::size_t> victims;
  if (next) victims = make_room(models, rules.memory, models[*next].bytes);
  const bool all_idle =
      std::all_of(victims.begin(), victims.end(), [&](std::size_t i) { return models[i].in_use == 0; });
  if (all_idle) {
    out.unload = victims;
    out.load = next;
  } else {
    out.leaving = victims;
  }
  for (std::size_t i = 0; i < models.size(); ++i) {
    const OfferedState& model = models[i];
    if (!model.loaded || model.stays || model.in_use > 0 || model.waiting > 0) continue;
    if (std::find(out.unload.begin(), out.unload.end(), i) != out.unload.end()) continue;
    const double end = model.last_used + rules.unload_after;
    if (end <= now)
      out.unload.push_back(i);
    else
      out.again = std::min(out.again, end);
  }
  return out;
}

}  // namespace stoa::serve
