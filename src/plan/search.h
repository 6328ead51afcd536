// The fastest layout of a model on a machine, by the time model and exact memory. Best-first search: a layout
// is never slower without recomputation and offloading than with them, so that time is a bound on all its
// variants; layouts are examined in the order of their bounds until none that is left can be better. So no
// layout in the space is better under the model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/memory_model.h"
#include "plan/predict.h"

namespace stoa::plan {

// What may vary; an empty list means everything that the sizes permit (see layouts()).
struct SearchSpace {
  std::vector<std::int64_t> tensor, pipeline, context, expert, virtual_stages, micro_batches;
  std::vector<std::int64_t> zero_stages;
  std::vector<std::string> schedules;
  // Subset of "none", "selective", "block", "full", "offload". The latter offloads what the first layers keep
  // to host memory, without recomputation or with selective.
  std::vector<std::string> recompute;
};

enum class SearchTarget { kStoa, kMegatron, kTorchtitan, kNemo };  // the program that will train
std::span<const config::EnumName<SearchTarget>> enum_names(SearchTarget);
std::string_view name_of(SearchTarget target);

struct SearchProgress {
  std::size_t examined = 0, left = 0;  // layouts: left are those that may be among the best
  double best_seconds = 0;             // 0: nothing fits yet
};

// Whose bytes an answer has, for people: "Stoa's own bytes, counted", "estimated for Megatron-LM".
std::string_view whose_bytes(SearchTarget target);

// Bytes of the device that needs most in that program: Stoa's are counted, those of the others estimated (of
// the workload, with what it recomputes). ConfigError if the point cannot run.
RankBytes fullest_device(SearchTarget target, MemoryModel& memory, const Workload& workload,
                         const MemoryPoint& point);

struct SearchRequest {
  Workload workload;  // model, global batch, format, software; degrees are ignored
  // Share by which the global batch may change if it cannot be divided evenly among data-parallel ranks.
  double batch_tolerance = 0;
  // Batches of a ramp-up besides the global one, which then may not change: layouts take each of them.
  std::vector<std::int64_t> smaller_batches;
  std::int64_t devices = 1;
  double memory = 0;  // bytes of a device that a plan may fill
  SearchSpace space;
  SearchTarget target = SearchTarget::kStoa;
  SearchTarget bytes = SearchTarget::kStoa;  // whose count (fullest_device)
  std::size_t top = 10;
  // Layouts within this factor of the best time are examined for the list and for the Pareto front of time
  // and memory.
  double front_within = 1.02;
  std::size_t most_looked_at = 20000;
  // Told now and then while the search runs.
  std::function<void(const SearchProgress&)> progress = {};
};

struct Found {
  Workload workload;
  MemoryPoint point;
  TimeSplit time;
  double seconds = 0;
  RankBytes memory;
  double tokens_per_second() const { return workload.tokens() / seconds; }
};

struct SearchResult {
  std::vector<Found> best;    // fastest first, per token
  std::vector<Found> front;   // none is both faster and smaller; fastest first
  std::size_t layouts = 0;    // in the space, not counting recomputation
  std::size_t looked_at = 0;  // whose memory was counted
  std::size_t bounded = 0;    // excluded by their bound
  std::size_t wired = 0;
  // If nothing fits: the layout that comes closest.
  std::optional<Found> nearest;
};

// Every layout of the request's space, without recomputation.
std::vector<Workload> layouts(const SearchRequest& request, const Cluster& cluster);
// The point that the program runs for a workload. `recompute` is what the workload describes; `base` says how
// context-parallel ranks exchange keys.
MemoryPoint memory_point(const Workload& w, const model::RecomputeConfig& recompute, const run::Layout& base);
// The workload with other recomputation. `blocks`: recomputed layers of every chunk, for kBlock.
Workload with_recompute(Workload w, const model::RecomputeConfig& recompute);

SearchResult search(MemoryModel& memory, const SearchRequest& request, const Cluster& cluster,
                    const Constants& constants);

// The same layout with one change, and its effect.
struct Neighbour {
  std::string change;   // "TP 4 -> 8"
  std::string verdict;  // "7.4 % slower: tensor parallel +0.31 s", "does not fit: 12.1 GB too much"
  double seconds = 0;   // 0: cannot run
  double bytes = 0;
  bool fits = false;
};
std::vector<Neighbour> neighbours(MemoryModel& memory, const SearchRequest& request, const Cluster& cluster,
                                  const Constants& constants, const Found& found);

// The largest item that grew from one split to the other: "bubble +0.42 s".
std::string largest_growth(const TimeSplit& from, const TimeSplit& to);

}  // namespace stoa::plan
