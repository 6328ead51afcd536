// A weighted mixture of data sets (megatron/core/datasets/blended_dataset.py and helpers.cpp).
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "data/dataset.h"
#include "data/index_cache.h"

namespace stoa::data {

inline constexpr double kBlendSurplus = 0.005;  // Megatron's --mid-level-dataset-surplus

struct BlendIndex {
  NpyArray dataset;  // int16 [n]
  NpyArray sample;   // int64 [n]
};

// Weights divided by their sum. ConfigError when one is negative or not finite, or all are 0.
std::vector<double> normalize_weights(std::span<const double> weights);

// Entry i goes to the data set d that maximises weights[d] * max(i, 1) - count[d]; the first wins ties.
BlendIndex build_blend_index(std::span<const double> weights, std::int64_t samples);
// The same rule with weights proportional to sizes, until every sample of every data set is used once.
BlendIndex build_exhaustive_blend_index(std::span<const std::int64_t> sizes);

// Samples of one of the constituents of a blend of `samples`: ceil(samples * weight), with the surplus
// ceil(ceil(samples * weight) * 1.005).
std::int64_t blend_share(std::int64_t samples, double weight);
std::int64_t blend_share_with_surplus(std::int64_t samples, double weight);

class BlendedDataset final : public Dataset {
 public:
  // `weights` (normalised) and `samples`, or neither: then every sample once.
  BlendedDataset(std::vector<std::shared_ptr<const Dataset>> parts, std::vector<double> weights,
                 std::int64_t samples, std::string_view split, const IndexCache& cache);

  std::int64_t size() const override { return index_.dataset.rows(); }
  std::int64_t sequence_length() const override { return parts_.front()->sequence_length(); }
  bool masked() const override { return parts_.front()->masked(); }
  void read(std::int64_t k, BatchRow row) const override;
  std::vector<Piece> pieces(std::int64_t k) const override;
  const BlendIndex& index() const { return index_; }

 private:
  std::pair<const Dataset*, std::int64_t> locate(std::int64_t k) const;

  std::vector<std::shared_ptr<const Dataset>> parts_;
  BlendIndex index_;
};

}  // namespace stoa::data
