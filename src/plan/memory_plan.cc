#include "plan/memory_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "parallel/meta_contexts.h"

namespace stoa::plan {

namespace {

using grid::Axis;

// Ranks that may need different memory: parts are distributed as evenly as possible, the longer ones first.
std::vector<int> telling_ranks(const run::Layout& layout) {
  std::vector<int> ranks;
  const auto end = [&](int rank, Axis axis) {
    const int at = layout.grid.coordinate(rank, axis);
    return at == 0 || at + 1 == layout.grid.degree(axis);
  };
  const bool replicas_differ = layout.zero_stage > 0;
  const auto replica = [&](int rank, Axis axis) {
    return replicas_differ ? end(rank, axis) : layout.grid.coordinate(rank, axis) == 0;
  };
  for (int rank = 0; rank < layout.grid.size(); ++rank)
    if (replica(rank, Axis::kData) && replica(rank, Axis::kContext) && end(rank, Axis::kTensor))
      ranks.push_back(rank);
  return ranks;
}

// All of a rank wired: where text is sampled, which the quick way does not know.
RankBytes wire_rank(infer::Machine& meta, const run::TrainingOptions& options, int rank) {
  const std::size_t scratch = run::TrainingRank::measure_scratch(meta, options, rank);
  run::TrainingRank wired(meta, options, parallel::make_meta_context(options.layout.grid, rank, *meta.device),
                          scratch);
  return {.categories = wired.arena().declared(), .total = wired.arena().total_bytes(), .rank = rank};
}

RankMemory described(const RankBytes& bytes, const grid::RankGrid& grid) {
  RankMemory memory;
  memory.rank = bytes.rank;
  memory.tensor = grid.coordinate(bytes.rank, Axis::kTensor);
  memory.context = grid.coordinate(bytes.rank, Axis::kContext);
  memory.data = grid.coordinate(bytes.rank, Axis::kData);
  memory.stage = grid.coordinate(bytes.rank, Axis::kPipeline);
  memory.categories = bytes.categories;
  memory.total = bytes.total;
  return memory;
}

std::string detail_line(std::string_view name, std::size_t bytes) {
  return fmt::format("    {:30}{:>12}\n", name, format_bytes(static_cast<double>(bytes)));
}

// The lines below a category.
std::string detail_lines(MemoryCategory category, const MemoryDetail& detail) {
  std::string out;
  switch (category) {
    case MemoryCategory::kActivations:
      out += fmt::format("    of {} microbatch{} in flight:\n", detail.in_flight,
                         detail.in_flight == 1 ? "" : "es");
      for (const auto& [module, bytes] : detail.saved)
        if (bytes > 0) out += detail_line(module, bytes);
      if (detail.places) out += detail_line("slots of offloaded layers", detail.places);
      return out;
    case MemoryCategory::kScratch:
      return fmt::format("    fullest in {}\n", detail.fullest);
    case MemoryCategory::kCommunication:
      if (detail.pipeline) out += detail_line("between pipeline stages", detail.pipeline);
      if (detail.gathered) out += detail_line("weights and gradients", detail.gathered);
      return out;
    default:
      return out;
  }
}

std::string category_lines(const MemoryPlan& plan) {
  std::string out;
  const MemoryTable& categories = plan.categories;
  const std::size_t total = plan.total;
  for (std::size_t c = 0; c < categories.size(); ++c) {
    if (!categories[c] || on_host(static_cast<MemoryCategory>(c))) continue;
    out += fmt::format("  {:24}{:>12}{:>20}\n", name_of(static_cast<MemoryCategory>(c)),
                       format_bytes(static_cast<double>(categories[c])), categories[c]);
    out += detail_lines(static_cast<MemoryCategory>(c), plan.detail);
  }
  out += fmt::format("  {:24}{:>12}{:>20}\n", "total", format_bytes(static_cast<double>(total)), total);
  if (plan.limit)
    out += fmt::format("  {:24}{:>12}{:>20}  {}: {} {}\n", "limit",
                       format_bytes(static_cast<double>(*plan.limit)), *plan.limit,
                       total <= *plan.limit ? "fits" : "does not fit",
                       format_bytes(std::abs(static_cast<double>(*plan.limit) - static_cast<double>(total))),
                       total <= *plan.limit ? "stay free" : "too much");
  if (plan.loads)
    out += fmt::format(
        "  experts: declared for {:g} x an even load (model.moe_buffer_factor); for an even load alone the "
        "total is {}, for all rows on one rank, which come in parts, {}\n",
        plan.loads->factor, format_bytes(static_cast<double>(plan.loads->even)),
        format_bytes(static_cast<double>(plan.loads->worst)));
  if (const std::size_t host = host_bytes(categories))
    out += fmt::format("  {:24}{:>12}{:>20}  in addition, in host memory\n",
                       name_of(MemoryCategory::kOffloaded), format_bytes(static_cast<double>(host)), host);
  return out;
}

}  // namespace

MemoryPlan plan_memory(infer::Machine& meta, const run::TrainingOptions& options, std::string layout) {
  MemoryPlan plan;
  plan.ranks = options.layout.grid.size();
  plan.layout = std::move(layout);
  plan.parameters = model::parameter_count(options.model);
  plan.machine = meta.description;
  std::vector<std::string> stages;
  if (options.layout.pipeline_ranks() > 1) {
    const std::string map =
        run::layer_map(run::place_chunks(options.layout, options.model.config.num_layers));
    for (std::size_t begin = 0; begin < map.size();) {
      const std::size_t end = map.find('\n', begin);
      stages.push_back(map.substr(map.find(": ", begin) + 2, end - map.find(": ", begin) - 2));
      begin = end + 1;
    }
  }
  plan.limit = options.memory_limit;
  run::TrainingOptions wired = options;
  wired.memory_limit.reset();  // exceeding the limit is reported, not an error
  run::TrainingOptions base = wired;
  base.sample_context = 0;
  MemoryModel quick(meta, base);
  const MemoryPoint point{options.layout, options.micro_batch, options.microbatches,
                          options.model.config.recompute};
  for (const int rank : telling_ranks(options.layout)) {
    plan.table.push_back(
        described(options.sample_context > 0 ? wire_rank(meta, wired, rank) : quick.rank(point, rank),
                  options.layout.grid));
    if (!stages.empty()) plan.table.back().layers = stages[static_cast<std::size_t>(plan.table.back().stage)];
  }
  const auto worst = std::max_element(plan.table.begin(), plan.table.end(),
                                      [](const auto& a, const auto& b) { return a.total < b.total; });
  plan.detail = quick.detail(point, worst->rank);
  plan.loads = quick.expert_loads(point, worst->rank);
  plan.categories = worst->categories;
  plan.total = worst->total;
  return plan;
}

std::string to_text(const MemoryPlan& plan) {
  std::string out = fmt::format("{} parameters; Stoa's own bytes, counted: {}\n",
                                format_count(static_cast<double>(plan.parameters)), plan.machine);
  if (plan.ranks == 1) return out + category_lines(plan);
  const auto worst = std::max_element(plan.table.begin(), plan.table.end(),
                                      [](const auto& a, const auto& b) { return a.total < b.total; });
  out += fmt::format("{}\nthe rank that needs most, rank {}:\n", plan.layout, worst->rank);
  out += category_lines(plan);
  out += fmt::format("  {:>6}{:>5}{:>5}{:>5}{:>5}{:>12}  {}\n", "rank", "tp", "cp", "dp", "pp", "total",
                     "stage");
  for (const RankMemory& rank : plan.table)
    out += fmt::format("  {:>6}{:>5}{:>5}{:>5}{:>5}{:>12}  {}\n", rank.rank, rank.tensor, rank.context,
                       rank.data, rank.stage, format_bytes(static_cast<double>(rank.total)), rank.layers);
  return out;
}

std::string to_json(const MemoryPlan& plan) {
  nlohmann::ordered_json categories;
  for (std::size_t c = 0; c < plan.categories.size(); ++c)
    categories[std::string(name_of(static_cast<MemoryCategory>(c)))] = plan.categories[c];
  nlohmann::ordered_json table = nlohmann::ordered_json::array();
  for (const RankMemory& rank : plan.table)
    table.push_back({{"rank", rank.rank},
                     {"tp", rank.tensor},
                     {"cp", rank.context},
                     {"dp", rank.data},
                     {"pp", rank.stage},
                     {"total_bytes", rank.total}});
  nlohmann::ordered_json saved;
  for (const auto& [module, bytes] : plan.detail.saved) saved[module] = bytes;
  const nlohmann::ordered_json detail{{"activations_by_module", saved},
                                      {"places_of_offloaded_layers", plan.detail.places},
                                      {"microbatches_in_flight", plan.detail.in_flight},
                                      {"pipeline_buffers", plan.detail.pipeline},
                                      {"gathered_buffers", plan.detail.gathered},
                                      {"scratch_is_fullest_in", plan.detail.fullest},
                                      {"fragmentation", 0}};
  nlohmann::ordered_json out{{"parameters", plan.parameters}, {"machine", plan.machine},
                             {"bytes", categories},           {"detail", detail},
                             {"total_bytes", plan.total},     {"host_bytes", host_bytes(plan.categories)},
                             {"ranks", plan.ranks},           {"table", table}};
  if (plan.loads)
    out["expert_loads"] = {{"buffer_factor", plan.loads->factor},
                           {"even_total_bytes", plan.loads->even},
                           {"worst_total_bytes", plan.loads->worst}};
  if (plan.limit) {
    out["limit_bytes"] = *plan.limit;
    out["fits"] = plan.total <= *plan.limit;
  }
  return out.dump();
}

}  // namespace stoa::plan
