// A schedule for people and for programs to read.
#pragma once

#include <string>

#include "schedule/simulate.h"

namespace stoa::schedule {

// All take a valid schedule of computations and the durations to time it with.
std::string to_report(const Schedule& schedule, const Durations& durations);  // bubble, memory, lists
std::string to_json(const Schedule& schedule,
                    const Durations& durations);  // also start and end of every action
std::string to_svg(const Schedule& schedule,
                   const Durations& durations);  // one row per rank, time to the right
std::string to_html(const Schedule& schedule, const Durations& durations);  // report and drawing on one page

}  // namespace stoa::schedule
