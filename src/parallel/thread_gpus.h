// Which GPUs the ranks of one process have.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"

namespace stoa::parallel {

class ThreadGpus {
 public:
  explicit ThreadGpus(int ranks) : identities_(static_cast<std::size_t>(ranks)) {}

  // Called by every rank with what tells its GPU from others (SharableDevice::identity()); `world`: of all
  // ranks, in host memory. True: each has one of its own. False: all have the same. ConfigError where some
  // share one and others do not.
  bool own_each(const std::string& identity, comm::Communicator& world);

 private:
  std::vector<std::string> identities_;  // by rank
};

}  // namespace stoa::parallel
