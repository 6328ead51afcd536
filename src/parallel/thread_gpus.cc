#include "parallel/thread_gpus.h"

#include <set>

#include "base/error.h"

namespace stoa::parallel {

bool ThreadGpus::own_each(const std::string& identity, comm::Communicator& world) {
  identities_[static_cast<std::size_t>(world.rank())] = identity;
  world.barrier();
  const std::size_t ranks = identities_.size(),
                    gpus = std::set(identities_.begin(), identities_.end()).size();
  require<ConfigError>(
      gpus == 1 || gpus == ranks,
      "{} ranks that are threads on {} GPUs: each has a GPU to itself, or all share one. Use "
      "--ranks {}, or --cuda device=0 to put all on one",
      ranks, gpus, gpus);
  return gpus > 1;
}

}  // namespace stoa::parallel
