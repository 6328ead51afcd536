// A matrix of floats as codes of a product quantiser (Jégou et al. 2011): each stretch of a row becomes the
// number of the nearest of 256 centroids, which k-means finds among rows.
#include <algorithm>
#include <limits>

#include "base/philox.h"
#include "curate/language/fasttext_model.h"

namespace stoa::curate {
namespace {

constexpr std::size_t kCentroidsPerPart = 256, kMostSamples = 1 << 16;
constexpr int kRounds = 25;

// The columns [begin, begin + length) of rows.
struct Stretch {
  std::span<const float> values;
  std::size_t columns, begin, length;
  const float* row(std::size_t i) const { return values.data() + i * columns + begin; }
};

std::size_t nearest(const float* x, std::span<const float> centroids, std::size_t length) {
  std::size_t best = 0;
  float least = std::numeric_limits<float>::max();
  for (std::size_t c = 0; c < kCentroidsPerPart; ++c) {
    float distance = 0;
    for (std::size_t d = 0; d < length; ++d) {
      const float difference = x[d] - centroids[c * length + d];
      distance += difference * difference;
    }
    if (distance < least) {
      least = distance;
      best = c;
    }
  }
  return best;
}

std::vector<float> find_centroids(const Stretch& stretch, std::span<const std::size_t> sample,
                                  const PhiloxKey& key) {
  std::vector<float> centroids(kCentroidsPerPart * stretch.length), sums(centroids.size());
  std::uint64_t drawn = 0;
  const auto take_row = [&](std::size_t c) {
    const float* from = stretch.row(sample[philox_word(key, drawn++) % sample.size()]);
    std::copy_n(from, stretch.length, centroids.begin() + static_cast<std::ptrdiff_t>(c * stretch.length));
  };
  for (std::size_t c = 0; c < kCentroidsPerPart; ++c) take_row(c);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::size_t> counts(kCentroidsPerPart);
    std::fill(sums.begin(), sums.end(), 0.0F);
    for (const std::size_t i : sample) {
      const float* x = stretch.row(i);
      const std::size_t c = nearest(x, centroids, stretch.length);
      ++counts[c];
      for (std::size_t d = 0; d < stretch.length; ++d) sums[c * stretch.length + d] += x[d];
    }
    for (std::size_t c = 0; c < kCentroidsPerPart; ++c) {
      if (counts[c] == 0) {
        take_row(c);
        continue;
      }
      for (std::size_t d = 0; d < stretch.length; ++d)
        centroids[c * stretch.length + d] = sums[c * stretch.length + d] / static_cast<float>(counts[c]);
    }
  }
  return centroids;
}

}  // namespace

void FastTextModel::Matrix::quantise(std::int32_t part_length, const PhiloxKey& key) {
  const auto count = static_cast<std::size_t>(rows), width = static_cast<std::size_t>(columns);
  if (quantised || count == 0) return;
  part = std::min(part_length, static_cast<std::int32_t>(columns));
  parts = static_cast<std::int32_t>((columns + part - 1) / part);
  last_part = static_cast<std::int32_t>(columns - std::int64_t{parts - 1} * part);
  std::vector<std::size_t> sample;
  for (std::size_t i = 0; i < std::min(count, kMostSamples); ++i)
    sample.push_back(count <= kMostSamples ? i : philox_word(key, i) % count);
  codes.resize(count * static_cast<std::size_t>(parts));
  for (std::int32_t p = 0; p < parts; ++p) {
    const auto begin = static_cast<std::size_t>(p) * static_cast<std::size_t>(part);
    const Stretch stretch{values, width, begin, static_cast<std::size_t>(p == parts - 1 ? last_part : part)};
    const PhiloxKey own{key.lo ^ static_cast<std::uint32_t>(p + 1), key.hi};
    const std::vector<float> found = find_centroids(stretch, sample, own);
    centroids.insert(centroids.end(), found.begin(), found.end());
    for (std::size_t i = 0; i < count; ++i)
      codes[i * static_cast<std::size_t>(parts) + static_cast<std::size_t>(p)] =
          static_cast<std::uint8_t>(nearest(stretch.row(i), found, stretch.length));
  }
  quantised = true;
  values = {};
}

}  // namespace stoa::curate
