// How many samples each step takes: constant, or ramped up as by Megatron's --rampup-batch-size: size = start
// + increment * floor(consumed / (ramp_samples / ((target - start) / increment))).
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace stoa::optim {

class BatchPlan {
 public:
  // `granule` = micro batch size x data-parallel degree: every size is a multiple of it, else ConfigError
  // with the nearest valid sizes. ramp = {start, increment, samples}.
  BatchPlan(std::int64_t global_batch, std::int64_t granule,
            const std::optional<std::vector<std::int64_t>>& ramp);

  // The first `steps` steps of the run consumed `samples` samples, perhaps with other batch sizes (a resumed
  // run): later steps are counted from there. No effect if this plan gives the same number.
  void go_on_after(std::int64_t steps, std::int64_t samples);

  // Samples of the step that begins after `consumed` samples.
  std::int64_t batch_at(std::int64_t consumed) const;
  // Samples consumed by the first `steps` steps; proportional for steps done with other sizes.
  std::int64_t samples_after(std::int64_t steps) const;
  // Steps needed for `samples` samples (a last partial one included).
  std::int64_t steps_for(std::int64_t samples) const;
  std::int64_t largest() const { return target_; }

  // From step `step` (1-based) on, `samples` per step.
  struct Size {
    std::int64_t step = 1, samples = 0;
  };
  // Every size that occurs, in order; the last one is largest().
  std::vector<Size> sizes() const;

 private:
  std::int64_t samples_from(std::int64_t consumed, std::int64_t steps) const;
  std::int64_t steps_from(std::int64_t consumed, std::int64_t samples) const;

  std::int64_t target_, start_, increment_ = 0, ramp_samples_ = 0;
  std::int64_t done_steps_ = 0, done_samples_ = 0;  // see go_on_after()
};

}  // namespace stoa::optim
