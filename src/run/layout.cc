#include "run/layout.h"

#include "schedule/generators.h"
#include "schedule/validate.h"

namespace stoa::run {

schedule::Schedule step_schedule(const Layout& layout, std::int64_t microbatches) {
  schedule::Schedule steps =
      schedule::lower(schedule::generate({.name = layout.schedule,
                                          .stages = layout.grid.degree(grid::Axis::kPipeline),
                                          .chunks = layout.chunks,
                                          .microbatches = static_cast<int>(microbatches),
                                          .group = layout.microbatch_group}));
  schedule::validate(steps);
  return steps;
}

}  // namespace stoa::run
