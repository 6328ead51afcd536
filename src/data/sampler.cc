#include "data/sampler.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "base/philox.h"

namespace stoa::data {
namespace {

// Random permutation of [0, n) as a function, without a table: a Feistel network over the next even power of
// two, walked until the value falls inside (Black and Rogaway, "Ciphers with arbitrary finite domains",
// CT-RSA 2002).
std::uint64_t permute(std::uint64_t value, std::uint64_t n, PhiloxKey key, std::uint32_t epoch) {
  const int half = static_cast<int>(std::max<std::uint64_t>(2, std::bit_width(n - 1) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half) - 1;
  constexpr std::uint32_t kRounds = 6;
  do {
    std::uint64_t left = value >> half, right = value & mask;
    for (std::uint32_t round = 0; round < kRounds; ++round) {
      const auto word = philox4x32(
          key, {static_cast<std::uint32_t>(right), static_cast<std::uint32_t>(right >> 32), round, epoch});
      const std::uint64_t mixed = left ^ (word[0] & mask);
      left = right;
      right = mixed;
    }
    value = left << half | right;
  } while (value >= n);
  return value;
}

}  // namespace

Sampler::Sampler(std::int64_t samples, SampleOrder order, std::uint64_t seed)
    : samples_(samples), order_(order), seed_(seed) {
  require<DataError>(samples > 0, "the data set has no samples");
}

std::int64_t Sampler::at(std::int64_t position) const {
  require<InternalError>(position >= 0, "position {} of a run", position);
  if (order_ == SampleOrder::kSequential) {
    require<DataError>(
        position < samples_,
        "the data set has {} samples and the run asks for number {}; it was built for fewer steps", samples_,
        position);
    return position;
  }
  const std::int64_t epoch = position / samples_;
  const PhiloxKey key = philox_key(seed_, RandomPurpose::kSampling, "data order");
  return static_cast<std::int64_t>(permute(static_cast<std::uint64_t>(position % samples_),
                                           static_cast<std::uint64_t>(samples_), key,
                                           static_cast<std::uint32_t>(epoch)));
}

void Sampler::global_batch(std::int64_t consumed, std::int64_t global_batch,
                           std::vector<std::int64_t>& out) const {
  micro_batch(consumed, 0, 0, 1, global_batch, out);
}

void Sampler::micro_batch(std::int64_t consumed, std::int64_t micro_batch, std::int64_t rank,
                          std::int64_t ranks, std::int64_t size, std::vector<std::int64_t>& out) const {
  require<InternalError>(rank >= 0 && rank < ranks && size >= 1 && micro_batch >= 0,
                         "rank {} of {}, micro-batch {} of {}", rank, ranks, micro_batch, size);
  const std::int64_t first = consumed + (micro_batch * ranks + rank) * size;
  out.clear();
  for (std::int64_t i = 0; i < size; ++i) out.push_back(at(first + i));
}

}  // namespace stoa::data
