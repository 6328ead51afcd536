// The fastest layout of a model on a machine, by the time model and exact memory. Best first: a layout
// is never slower without recomputation and offloading than with them, so its time is a bound on all that it
// can become; layouts are looked at in the order of their bounds until none that is left can be better.
// Nothing in the space is better under the model.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "plan/memory_model.h"
#include "plan/predict.h"

namespace stoa::plan {

// What may vary; an empty list means all that the sizes allow (see layouts()).
struct SearchSpace {
  std::vector<std::int64_t> tensor, pipeline, context, expert, virtual_stages, micro_batches;
  std::vector<std::int64_t> zero_stages;
  std::vector<std::string> schedules;
  // Of "none", "selective", "block", "full"; "offload": what the first layers keep may wait in the host's
  // memory, with none and with selective.
  std::vector<std::string> recompute;
};

enum class SearchTarget { kStoa, kMegatron, kTorchtitan };  // the program that will train
std::span<const config::EnumName<SearchTarget>> enum_names(SearchTarget);

struct SearchRequest {
  Workload workload;  // model, global batch, format, software; degrees do not count
  // Share by which the global batch may differ where it cannot be dealt out evenly among data-parallel ranks.
  double batch_tolerance = 0;
  std::int64_t devices = 1;
  double memory = 0;  // bytes of a device that a plan may fill
  SearchSpace space;
  SearchTarget target = SearchTarget::kStoa;
  std::size_t top = 10;
  // Layouts within this factor of the best time are looked at for the list and for the front of time and
  // memory.
  double front_within = 1.02;
  std::size_t most_looked_at = 20000;
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
  std::size_t layouts = 0;    // in the space, recomputation aside
  std::size_t looked_at = 0;  // memory was counted
  std::size_t bounded = 0;    // never looked at: they cannot be better
  std::size_t wired = 0;
  // Where nothing fits: the one that comes nearest.
  std::optional<Found> nearest;
};

// Every layout of the request's space, without recomputation.
std::vector<Workload> layouts(const SearchRequest& request, const Cluster& cluster);
// What the program runs of a workload. `config` gives the recomputation for which the workload stands.
MemoryPoint memory_point(const Workload& w, const model::RecomputeConfig& recompute);
// With another recomputation. `blocks`: layers of every chunk that are recomputed, for kBlock.
Workload with_recompute(Workload w, const model::RecomputeConfig& recompute);

SearchResult search(MemoryModel& memory, const SearchRequest& request, const Cluster& cluster,
                    const Constants& constants);

// The same layout with one thing changed, and what becomes of it.
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
