#include "plan/memory_plan.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/console.h"
#include "parallel/meta_contexts.h"

namespace stoa::plan {

MemoryPlan plan_memory(run::Machine& meta, const run::TrainingOptions& options) {
  const std::size_t scratch = run::TrainingRank::measure_scratch(meta, options);
  run::TrainingRank rank(meta, options, parallel::make_meta_context(options.layout.grid, 0, *meta.device),
                         scratch);
  MemoryPlan plan;
  plan.categories = rank.arena().declared();
  plan.total = rank.arena().total_bytes();
  plan.parameters = model::parameter_count(options.model);
  plan.machine = meta.description;
  return plan;
}

std::string to_text(const MemoryPlan& plan) {
  std::string out =
      fmt::format("{} parameters, {}\n", format_count(static_cast<double>(plan.parameters)), plan.machine);
  for (std::size_t c = 0; c < plan.categories.size(); ++c)
    if (plan.categories[c])
      out += fmt::format("  {:24}{:>12}{:>20}\n", name_of(static_cast<MemoryCategory>(c)),
                         format_bytes(static_cast<double>(plan.categories[c])), plan.categories[c]);
  out += fmt::format("  {:24}{:>12}{:>20}\n", "total", format_bytes(static_cast<double>(plan.total)),
                     plan.total);
  return out;
}

std::string to_json(const MemoryPlan& plan) {
  nlohmann::ordered_json categories;
  for (std::size_t c = 0; c < plan.categories.size(); ++c)
    categories[std::string(name_of(static_cast<MemoryCategory>(c)))] = plan.categories[c];
  return nlohmann::ordered_json{{"parameters", plan.parameters},
                                {"machine", plan.machine},
                                {"bytes", categories},
                                {"total_bytes", plan.total}}
      .dump();
}

}  // namespace stoa::plan
