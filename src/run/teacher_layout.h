// The layout of a teacher, whose layers are as many as they are, in the pipeline of its student.
#pragma once

#include <cstdint>

#include "run/layout.h"

namespace stoa::run {

// The same layout with `layers` layers over `chunks` chunks, as evenly as possible.
Layout layout_of_teacher(Layout layout, std::int64_t layers, std::int64_t chunks);

}  // namespace stoa::run
