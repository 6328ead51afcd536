// How long ranks talk: size over bus bandwidth plus steps of latency (nccl-tests, doc/PERFORMANCE.md).
#pragma once

#include "plan/calibration.h"
#include "plan/cluster.h"

namespace stoa::plan {

// Ranks `stride` apart in the order of devices.
struct CommGroup {
  std::int64_t size = 1, stride = 1;
};

// Seconds of collectives on one cluster. `bytes` is the whole tensor: what every rank has after a gather,
// what it has before a reduction.
class CollectiveTime {
 public:
  CollectiveTime(const Cluster& cluster, const Constants& constants);

  double all_reduce(double bytes, CommGroup group) const;
  double all_gather(double bytes, CommGroup group) const;  // reduce-scatter costs the same
  double all_to_all(double bytes, CommGroup group) const;  // `bytes` of one rank
  // The same where what goes to several ranks of a node crosses the network once: `crossing` bytes of what
  // one rank has for all nodes, its own among them.
  double all_to_all(double bytes, double crossing, CommGroup group) const;
  std::int64_t nodes(CommGroup group) const { return path(group).nodes; }
  double send(double bytes, std::int64_t from, std::int64_t to) const;  // between two devices

 private:
  struct Path {
    double bandwidth;  // bytes/s per rank
    double latency;    // of one step
    std::int64_t nodes;
  };
  std::int64_t island() const;  // devices that see each other through one fast switch
  double network(std::int64_t ranks, std::int64_t nodes) const;  // network_; ConfigError where there is none
  Path path(CommGroup group) const;

  const Cluster& cluster_;
  double island_, network_;  // bytes/s that one device reaches
};

}  // namespace stoa::plan
