#include "base/cores.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <thread>

#include "base/error.h"

namespace stoa {

int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

void stay_on_share(int part, int parts) {
  const int cores = available_cores();
  require<ConfigError>(cores >= parts, "{} ranks, each on its own cores, but this process may run on {} only",
                       parts, cores);
#if defined(__linux__)
  cpu_set_t all, share;
  CPU_ZERO(&all);
  CPU_ZERO(&share);
  require<ConfigError>(::sched_getaffinity(0, sizeof all, &all) == 0,
                       "the cores of this process cannot be read");
  const int begin = part * cores / parts, end = (part + 1) * cores / parts;
  for (int core = 0, index = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &all)) continue;
    if (index >= begin && index < end) CPU_SET(core, &share);
    ++index;
  }
  require<ConfigError>(::sched_setaffinity(0, sizeof share, &share) == 0,
                       "rank {} cannot be bound to its cores", part);
#endif
}

}  // namespace stoa
