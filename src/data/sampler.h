// Which samples a step sees: a pure function of the number of samples consumed before it. The cursor of a run
// is this one integer, so batch ramps, other layouts and resumption need nothing else.
#pragma once

#include <cstdint>
#include <vector>

namespace stoa::data {

enum class SampleOrder {
  kSequential,  // Megatron's "single": position p is sample p; the data set (already shuffled) is made long
                // enough
  kCyclic,  // Megatron's "cyclic": epoch after epoch, each in its own random order. Unlike Megatron's, the
            // order does not depend on data-parallel size or micro-batch, and no sample of an epoch is
            // dropped
};

class Sampler {
 public:
  Sampler(std::int64_t samples, SampleOrder order, std::uint64_t seed);

  // Sample at position `position` (>= 0) of the run. Sequential: DataError beyond the data set.
  std::int64_t at(std::int64_t position) const;

  // All samples of a step, in global order.
  void global_batch(std::int64_t consumed, std::int64_t global_batch, std::vector<std::int64_t>& out) const;

  // Samples of micro-batch `micro_batch` of data-parallel rank `rank` of `ranks`: positions consumed +
  // (micro_batch * ranks + rank) * size + [0, size).
  void micro_batch(std::int64_t consumed, std::int64_t micro_batch, std::int64_t rank, std::int64_t ranks,
                   std::int64_t size, std::vector<std::int64_t>& out) const;

 private:
  const std::int64_t samples_;
  const SampleOrder order_;
  const std::uint64_t seed_;
};

}  // namespace stoa::data
