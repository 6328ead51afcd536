#include "plan/estimate_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/console.h"
#include "plan/memory_estimate.h"

namespace stoa::plan {
namespace {

std::vector<std::pair<const char*, double>> parts_of(const MemorySplit& split) {
  return {{"weights", split.weights},         {"gradients", split.gradients}, {"optimizer", split.optimizer},
          {"activations", split.activations}, {"logits", split.logits},       {"working", split.working}};
}

}  // namespace

std::string estimate_text(const Workload& w, std::string_view whose) {
  validate(w);
  std::int64_t stage = 0;
  const MemorySplit split = estimate_memory(w, &stage);
  std::string out =
      fmt::format("{} parameters; {}\n{}\n", format_count(w.model.parameters()), whose, w.text());
  if (w.pp > 1) out += fmt::format("the pipeline rank that needs most, {}:\n", stage);
  for (const auto& [name, bytes] : parts_of(split))
    if (bytes > 0) out += fmt::format("  {:24}{:>12}\n", name, format_bytes(bytes));
  out += fmt::format("  {:24}{:>12}  without context, libraries and the allocator's blocks\n", "total",
                     format_bytes(split.sum()));
  if (split.offloaded > 0)
    out += fmt::format("  {:24}{:>12}  in addition, in host memory\n", "offloaded",
                       format_bytes(split.offloaded));
  return out;
}

std::string estimate_json(const Workload& w, std::string_view whose) {
  validate(w);
  std::int64_t stage = 0;
  const MemorySplit split = estimate_memory(w, &stage);
  nlohmann::ordered_json bytes;
  for (const auto& [name, value] : parts_of(split)) bytes[name] = value;
  return nlohmann::ordered_json{{"parameters", w.model.parameters()},
                                {"whose_bytes", whose},
                                {"layout", w.text()},
                                {"stage", stage},
                                {"bytes", std::move(bytes)},
                                {"total_bytes", split.sum()},
                                {"host_bytes", split.offloaded}}
      .dump();
}

}  // namespace stoa::plan
