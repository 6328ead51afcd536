// How many samples each step takes: constant, or ramped up as Megatron's --rampup-batch-size did (reference
// section H): size = start + increment * floor(consumed / (ramp_samples / ((target - start) / increment))).
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

  // Samples of the step that begins after `consumed` samples.
  std::int64_t batch_at(std::int64_t consumed) const;
  // Samples consumed by the first `steps` steps.
  std::int64_t samples_after(std::int64_t steps) const;
  // Steps that `samples` samples fill (the last one counted whole).
  std::int64_t steps_for(std::int64_t samples) const;
  std::int64_t largest() const { return target_; }

 private:
  std::int64_t target_, start_, increment_ = 0, ramp_samples_ = 0;
};

}  // namespace stoa::optim
