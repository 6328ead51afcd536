// Seconds of a pipelined step in closed form; tests compare it with schedule::simulate.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace stoa::plan {

// Work of a pipeline rank for one microbatch, over all its chunks.
struct StageWork {
  double forward = 0, backward_input = 0, backward_weight = 0;
  double send = 0;  // to the next stage, one way, if it is waited for
  double all() const { return forward + backward_input + backward_weight; }
};

// From the first forward to the last backward of the whole pipeline. `schedule`: of
// schedule::run_schedule_names(). Schedules without a closed form are simulated; with many microbatches, only
// until the pattern repeats.
double pipeline_seconds(const std::string& schedule, std::span<const StageWork> stages,
                        std::int64_t microbatches, std::int64_t chunks);
// A lower bound of pipeline_seconds(), and fast for all schedules: a rank starts when the first forward has
// reached it, and then has all its work to do.
double least_pipeline_seconds(const std::string& schedule, std::span<const StageWork> stages,
                              std::int64_t microbatches, std::int64_t chunks);
bool has_closed_form(const std::string& schedule);
// Whether input and weight gradients are separate passes.
bool splits_backward(const std::string& schedule);

// Microbatches whose activations pipeline rank `stage` holds at once, in units of all its chunks.
double microbatches_in_flight(const std::string& schedule, std::int64_t stages, std::int64_t stage,
                              std::int64_t microbatches, std::int64_t chunks);

}  // namespace stoa::plan
