#include "data/blend.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/error.h"

namespace stoa::data {
namespace {

// The greedy rule over the data sets in `open`, in their order; `spent` may close one after each draw.
template <class Spent>
BlendIndex greedy(std::span<const double> weights, std::int64_t samples, Spent&& spent) {
  require<ConfigError>(weights.size() < 32767,
                       "{} data sets are too many for one blend; expected fewer than 32767", weights.size());
  std::vector<std::int16_t> dataset;
  std::vector<std::int64_t> sample, counts(weights.size(), 0);
  dataset.reserve(static_cast<std::size_t>(samples));
  sample.reserve(static_cast<std::size_t>(samples));
  std::vector<std::size_t> open(weights.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  for (std::int64_t i = 0; i < samples; ++i) {
    const double drawn = static_cast<double>(std::max<std::int64_t>(i, 1));
    std::size_t best = open.front();
    double best_error = -std::numeric_limits<double>::infinity();
    for (const std::size_t d : open) {
      const double error = weights[d] * drawn - static_cast<double>(counts[d]);
      if (error > best_error) best_error = error, best = d;
    }
    dataset.push_back(static_cast<std::int16_t>(best));
    sample.push_back(counts[best]++);
    if (spent(best, counts[best])) open.erase(std::find(open.begin(), open.end(), best));
  }
  return {NpyArray::from(std::move(dataset)), NpyArray::from(std::move(sample))};
}

}  // namespace

std::vector<double> normalize_weights(std::span<const double> weights) {
  double sum = 0;
  for (const double w : weights) {
    require<ConfigError>(std::isfinite(w) && w >= 0, "a blend weight is {}; expected a number of at least 0",
                         w);
    sum += w;
  }
  require<ConfigError>(sum > 0, "all blend weights are 0");
  std::vector<double> out(weights.begin(), weights.end());
  for (double& w : out) w /= sum;
  return out;
}

BlendIndex build_blend_index(std::span<const double> weights, std::int64_t samples) {
  return greedy(weights, samples, [](std::size_t, std::int64_t) { return false; });
}

BlendIndex build_exhaustive_blend_index(std::span<const std::int64_t> sizes) {
  const auto total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  std::vector<double> weights;
  for (const std::int64_t n : sizes) weights.push_back(static_cast<double>(n) / static_cast<double>(total));
  return greedy(weights, total, [&](std::size_t d, std::int64_t count) { return count == sizes[d]; });
}

std::int64_t blend_share(std::int64_t samples, double weight) {
  return static_cast<std::int64_t>(std::ceil(static_cast<double>(samples) * weight));
}

std::int64_t blend_share_with_surplus(std::int64_t samples, double weight) {
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(blend_share(samples, weight)) * (1 + kBlendSurplus)));
}

BlendedDataset::BlendedDataset(std::vector<std::shared_ptr<const Dataset>> parts, std::vector<double> weights,
                               std::int64_t samples, std::string_view split, const IndexCache& cache)
    : parts_(std::move(parts)) {
  require<InternalError>(!parts_.empty(), "a blend of nothing");
  std::vector<std::int64_t> sizes;
  for (const auto& part : parts_) {
    require<ConfigError>(part->sequence_length() == sequence_length(),
                         "a blend of sequence lengths {} and {}", sequence_length(), part->sequence_length());
    sizes.push_back(part->size());
  }
  const std::int64_t expected =
      weights.empty() ? std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}) : samples;
  // The index depends on weights, sizes and the number of samples only, so these are its description.
  nlohmann::ordered_json j;
  j["class"] = "BlendedDataset";
  j["split"] = split;
  if (weights.empty()) {
    j["sizes"] = sizes;
  } else {
    j["weights"] = weights;
    j["size"] = samples;
  }
  const auto accept = [&](const std::vector<NpyArray>& a) {
    return a[0].rows() == expected && a[1].rows() == expected && a[0].columns() == 1 && a[1].columns() == 1;
  };
  auto arrays = cache.get(fmt::format("BlendedDataset-{}", split), j.dump(2) + "\n",
                          {"dataset_index", "dataset_sample_index"}, accept, [&]() -> std::vector<NpyArray> {
                            BlendIndex built = weights.empty() ? build_exhaustive_blend_index(sizes)
                                                               : build_blend_index(weights, samples);
                            return {std::move(built.dataset), std::move(built.sample)};
                          });
  index_ = {std::move(arrays[0]), std::move(arrays[1])};
  std::vector<std::int64_t> used(parts_.size(), 0);
  for (std::int64_t k = 0; k < size(); ++k) {
    const std::int64_t d = index_.dataset.at(k);
    require<DataError>(d >= 0 && d < static_cast<std::int64_t>(used.size()),
                       "the cached blend index is damaged; remove the cache directory");
    auto& most = used[static_cast<std::size_t>(d)];
    most = std::max(most, index_.sample.at(k) + 1);
  }
  for (std::size_t d = 0; d < parts_.size(); ++d)
    require<DataError>(used[d] <= sizes[d], "the {} blend takes {} samples of data set {}, which has {}",
                       split, used[d], d, sizes[d]);
}

std::pair<const Dataset*, std::int64_t> BlendedDataset::locate(std::int64_t k) const {
  require<DataError>(k >= 0 && k < size(), "the blend has {} samples; number {} was requested", size(), k);
  return {parts_[static_cast<std::size_t>(index_.dataset.at(k))].get(), index_.sample.at(k)};
}

void BlendedDataset::read(std::int64_t k, BatchRow row) const {
  const auto [part, sample] = locate(k);
  part->read(sample, row);
}

std::vector<Piece> BlendedDataset::pieces(std::int64_t k) const {
  const auto [part, sample] = locate(k);
  return part->pieces(sample);
}

}  // namespace stoa::data
