#include "train/contrastive_pass.h"

#include <algorithm>
#include <utility>

#include "run/over_ranks.h"

namespace stoa::train {

using parallel::Group;

ContrastivePass::ContrastivePass(run::TrainingRank& rank, const Options& options)
    : rank_(rank),
      options_(options),
      hidden_(rank.options().model.config.hidden_size),
      ranks_(rank.options().layout.data_ranks()),
      own_(rank.options().layout.data_rank(rank.parallel().rank())),
      averaged_(rank.options().model.config.pooling() == model::Pooling::kMean) {}

// Microbatches are distributed over the data-parallel ranks in turn (rows_of_rank).
std::size_t ContrastivePass::place_of(std::int64_t row) const {
  const std::int64_t micro = rank_.options().micro_batch;
  return static_cast<std::size_t>((row / micro * ranks_ + own_) * micro + row % micro);
}

std::int64_t ContrastivePass::pooled(const data::Batch& batch, std::int64_t row) const {
  return averaged_ ? batch.boundaries(row).back() : 1;
}

std::vector<double> ContrastivePass::vectors_of(const data::Batch& batch) {
  const auto width = static_cast<std::size_t>(hidden_);
  std::vector<double> all(static_cast<std::size_t>(batch.rows * ranks_) * width, 0.0);
  const std::int64_t micro = rank_.options().micro_batch;
  const auto take = [&](std::int64_t first, const auto* states) {
    for (std::int64_t row = first; row < first + micro; ++row) {
      const auto vector = std::span(all).subspan(place_of(row) * width, width);
      const std::int64_t count = pooled(batch, row);
      for (std::int64_t token = 0; token < count; ++token, states += width)
        for (std::size_t i = 0; i < width; ++i)
          vector[i] += static_cast<double>(states[i]) / static_cast<double>(count);
    }
  };
  rank_.evaluate(batch, 0, [&](std::int64_t row, TensorView states) {
    has_head_ = true;
    if (states.dtype == DType::kF64)
      take(row, states.as<double>());
    else
      take(row, states.as<float>());
  });
  run::add_over_ranks(rank_, all, Group::kData);
  return all;
}

tune::ContrastiveLoss ContrastivePass::compare(std::span<const double> vectors, bool gradients,
                                               Sums& sums) const {
  const tune::ComparedVectors compared{vectors, hidden_, options_.rows.texts};
  tune::ContrastiveLoss found = tune::contrastive_loss(compared, options_.temperature, gradients);
  sums.loss += found.loss;
  sums.queries += static_cast<double>(compared.groups());
  sums.right += static_cast<double>(found.right);
  sums.positive += found.positive;
  sums.others += found.others;
  return found;
}

// Ranks with the head have the sums of the whole batch.
LossPass::Measure ContrastivePass::measure_of(Sums sums) {
  if (!has_head_) sums = {};
  run::add_over_ranks(rank_, sums.all(), Group::kPipeline);
  const auto mean = [&](double sum) { return sums.queries > 0 ? sum / sums.queries : 0; };
  return {mean(sums.loss),
          {{"accuracy", mean(sums.right)},
           {"cosine_positive", mean(sums.positive)},
           {"cosine_others", mean(sums.others)}}};
}

LossPass::Measure ContrastivePass::weigh(data::Batch& batch) {
  const std::vector<double> vectors = vectors_of(batch);
  const auto width = static_cast<std::size_t>(hidden_);
  batch.vector_gradients.assign(static_cast<std::size_t>(batch.rows) * width, 0.0f);
  batch.valid_tokens = batch.rows * ranks_ / options_.rows.texts;
  Sums sums;
  if (has_head_) {
    const tune::ContrastiveLoss found = compare(vectors, true, sums);
    for (std::int64_t row = 0; row < batch.rows; ++row) {
      const auto tokens = static_cast<double>(pooled(batch, row));
      const auto from = std::span(found.gradients).subspan(place_of(row) * width, width);
      std::transform(from.begin(), from.end(),
                     batch.vector_gradients.begin() + static_cast<std::ptrdiff_t>(row * hidden_),
                     [&](double gradient) { return static_cast<float>(gradient / tokens); });
    }
  }
  return measure_of(sums);
}

void ContrastivePass::add(const data::Batch& batch) {
  const std::vector<double> vectors = vectors_of(batch);
  validation_.insert(validation_.end(), vectors.begin(), vectors.end());
}

// As many at once as in training, however the rows came here.
LossPass::Measure ContrastivePass::take() {
  const std::vector<double> vectors = std::exchange(validation_, {});
  const auto group = static_cast<std::size_t>(options_.rows.texts * hidden_),
             at_once = static_cast<std::size_t>(options_.largest * hidden_),
             held_back = static_cast<std::size_t>(options_.rows.held_back * hidden_),
             whole = std::min(vectors.size(), held_back) / group * group;
  Sums sums;
  if (has_head_)
    for (std::size_t from = 0; from < whole; from += at_once)
      compare(std::span(vectors).subspan(from, std::min(at_once, whole - from)), false, sums);
  return measure_of(sums);
}

}  // namespace stoa::train
