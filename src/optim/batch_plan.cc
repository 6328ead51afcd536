#include "optim/batch_plan.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace stoa::optim {
namespace {

void require_multiple(std::int64_t size, std::int64_t granule, const char* what) {
  const std::int64_t below = std::max<std::int64_t>(granule, size / granule * granule);
  require<ConfigError>(
      size >= granule && size % granule == 0,
      "{} {} is not a multiple of micro_batch_size x data-parallel ranks = {}: the nearest {}", what, size,
      granule,
      size < granule ? fmt::format("is {}", granule) : fmt::format("are {} and {}", below, below + granule));
}

}  // namespace

BatchPlan::BatchPlan(std::int64_t global_batch, std::int64_t granule,
                     const std::optional<std::vector<std::int64_t>>& ramp)
    : target_(global_batch), start_(global_batch) {
  require_multiple(global_batch, granule, "global_batch_size");
  if (!ramp) return;
  require<ConfigError>(ramp->size() == 3,
                       "rampup_batch_size takes [start, increment, samples], got {} numbers", ramp->size());
  start_ = (*ramp)[0];
  increment_ = (*ramp)[1];
  ramp_samples_ = (*ramp)[2];
  require_multiple(start_, granule, "the first number of rampup_batch_size,");
  require_multiple(increment_, granule, "the increment of rampup_batch_size,");
  require<ConfigError>(start_ <= target_ && (target_ - start_) % increment_ == 0,
                       "rampup_batch_size: global_batch_size {} cannot be reached from {} in steps of {}",
                       target_, start_, increment_);
}

std::int64_t BatchPlan::batch_at(std::int64_t consumed) const {
  if (start_ == target_ || consumed >= ramp_samples_) return target_;
  const std::int64_t increments = (target_ - start_) / increment_;
  const double samples_per_increment = static_cast<double>(ramp_samples_) / static_cast<double>(increments);
  return std::min(target_, start_ + increment_ * static_cast<std::int64_t>(static_cast<double>(consumed) /
                                                                           samples_per_increment));
}

void BatchPlan::go_on_after(std::int64_t steps, std::int64_t samples) {
  if (samples == samples_from(0, steps)) return;
  done_steps_ = steps;
  done_samples_ = samples;
}

std::int64_t BatchPlan::samples_from(std::int64_t consumed, std::int64_t steps) const {
  for (; steps > 0 && batch_at(consumed) != target_; --steps) consumed += batch_at(consumed);
  return consumed + steps * target_;
}

std::int64_t BatchPlan::steps_from(std::int64_t consumed, std::int64_t samples) const {
  std::int64_t steps = 0;
  for (; consumed < samples && batch_at(consumed) != target_; ++steps) consumed += batch_at(consumed);
  if (consumed < samples) steps += (samples - consumed + target_ - 1) / target_;
  return steps;
}

std::int64_t BatchPlan::samples_after(std::int64_t steps) const {
  if (steps >= done_steps_) return samples_from(done_samples_, steps - done_steps_);
  return static_cast<std::int64_t>(static_cast<double>(done_samples_) * static_cast<double>(steps) /
                                   static_cast<double>(done_steps_));
}

std::int64_t BatchPlan::steps_for(std::int64_t samples) const {
  if (samples >= done_samples_) return done_steps_ + steps_from(done_samples_, samples);
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(done_steps_) * static_cast<double>(samples) /
                                             static_cast<double>(done_samples_)));
}

std::vector<BatchPlan::Size> BatchPlan::sizes() const {
  std::vector<Size> sizes;
  std::int64_t step = done_steps_ + 1;
  for (std::int64_t consumed = done_samples_;; consumed += sizes.back().samples, ++step) {
    const std::int64_t size = batch_at(consumed);
    if (sizes.empty() || sizes.back().samples != size) sizes.push_back({step, size});
    if (size == target_) return sizes;
  }
}

}  // namespace stoa::optim
