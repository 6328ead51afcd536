#include "plan/collective_time.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::plan {

CollectiveTime::CollectiveTime(const Cluster& cluster, const Constants& constants)
    : cluster_(cluster),
      island_(cluster.links.island_bandwidth_gbs * 1e9 * constants[Constant::kIsland]),
      network_(cluster.links.network_bandwidth_gbs.value_or(0) * 1e9 * constants[Constant::kNetwork] /
               cluster.links.oversubscription) {}

std::int64_t CollectiveTime::island() const {
  return std::max(cluster_.links.devices_per_island, cluster_.links.devices_per_node);
}

double CollectiveTime::network(std::int64_t ranks, std::int64_t nodes) const {
  require<ConfigError>(
      network_ > 0,
      "cluster '{}' has no link between its nodes (links.network_bandwidth_gbs), but a group of {} "
      "ranks spans {} of them",
      cluster_.name, ranks, nodes);
  return network_;
}

CollectiveTime::Path CollectiveTime::path(CommGroup group) const {
  const std::int64_t local =
      std::clamp<std::int64_t>((island() + group.stride - 1) / group.stride, 1, group.size);
  const std::int64_t nodes = (group.size + local - 1) / local;
  if (nodes == 1) return {island_, cluster_.links.island_latency_us * 1e-6, 1};
  // The adapters of all members inside a node carry the ring between nodes together.
  const double between = network(group.size, nodes) * static_cast<double>(local);
  return {local > 1 ? std::min(island_, between) : between, cluster_.links.network_latency_us * 1e-6, nodes};
}

double CollectiveTime::all_reduce(double bytes, CommGroup group) const {
  if (group.size <= 1 || bytes <= 0) return 0;
  const Path at = path(group);
  const auto n = static_cast<double>(group.size);
  const double factor =
      cluster_.links.network_reduction && at.nodes > 1
          ? static_cast<double>(at.nodes) / static_cast<double>(at.nodes + 1) * 2 * (n - 1) / n
          : 2 * (n - 1) / n;
  // Rings take 2 (n - 1) steps, trees 2 log2 n: libraries choose.
  const double steps = 2 * std::min(n - 1, std::ceil(std::log2(n)));
  return bytes * factor / at.bandwidth + steps * at.latency;
}

double CollectiveTime::all_gather(double bytes, CommGroup group) const {
  if (group.size <= 1 || bytes <= 0) return 0;
  const Path at = path(group);
  const auto n = static_cast<double>(group.size);
  return bytes * (n - 1) / n / at.bandwidth + std::ceil(std::log2(n)) * at.latency;
}

double CollectiveTime::all_to_all(double bytes, CommGroup group) const {
  if (group.size <= 1 || bytes <= 0) return 0;
  const Path at = path(group);
  const auto n = static_cast<double>(group.size);
  if (at.nodes == 1) return bytes * (n - 1) / n / at.bandwidth + at.latency;
  const auto nodes = static_cast<double>(at.nodes);  // what leaves a node goes through one adapter per rank
  return bytes * (nodes - 1) / nodes / network_ + at.latency;
}

double CollectiveTime::all_to_all(double bytes, double crossing, CommGroup group) const {
  if (group.size <= 1 || bytes <= 0) return 0;
  const Path at = path(group);
  if (at.nodes == 1) return all_to_all(bytes, group);
  const auto nodes = static_cast<double>(at.nodes);
  // The copies of a node travel through its switch meanwhile.
  return std::max(crossing * (nodes - 1) / nodes / network_, bytes / island_) + at.latency;
}

double CollectiveTime::send(double bytes, std::int64_t from, std::int64_t to) const {
  if (from == to || bytes <= 0) return 0;
  const Links& links = cluster_.links;
  if (from / island() == to / island()) return bytes / island_ + links.island_latency_us * 1e-6;
  return bytes / network(2, 2) + links.network_latency_us * 1e-6;
}

}  // namespace stoa::plan
