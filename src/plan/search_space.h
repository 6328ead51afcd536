// What a search varies: degrees that divide the devices, and the schedules of each program.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/search.h"

namespace stoa::plan {

std::vector<std::int64_t> divisors(std::int64_t n);  // ascending

// Whether a list of the request permits the value; an empty one permits all.
template <class T>
bool allowed(const std::vector<T>& list, const T& value) {
  return list.empty() || std::find(list.begin(), list.end(), value) != list.end();
}

// The schedules that each program supports.
std::vector<std::string> schedules_of(SearchTarget target);
// ZB-H2 needs ranks that take the optimizer step independently: here they wait for the norm of all gradients.
// It is searched only on request, and so are schedules that trade time for memory.
bool searched_by_default(const std::string& schedule);
// The program that runs on a cluster today: on GPUs Megatron-LM, as Stoa's own is not proven there.
SearchTarget usual_target(const Cluster& cluster);
// NeMo trains with Megatron-Core.
bool of_megatron(SearchTarget target);
// Whether a stage may have a number of chunks of its own choice.
bool takes_chunks(const std::string& schedule);
// Whether the generator supports this number of microbatches.
bool takes_microbatches(const std::string& schedule, std::int64_t stages, std::int64_t microbatches);

// Whether `tensor` ranks split the heads, those of state-space layers and their groups evenly.
bool splits_heads(const ModelShape& model, std::int64_t tensor);

// Whether groups of `group` consecutive ranks, each of which would fit into a node, do not fill nodes: some
// of them then have ranks in two.
bool leaves_nodes(const Cluster& cluster, std::int64_t devices, std::int64_t group);

}  // namespace stoa::plan
