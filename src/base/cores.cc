#include "base/cores.h"

#if defined(__linux__)
#include <sched.h>
#endif

#include <algorithm>
#include <thread>

namespace stoa {

int available_cores() {
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (::sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace stoa
