#include "curate/language/fasttext_trainer.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/philox.h"

namespace stoa::curate {
namespace {

template <class T>
void put(AtomicFile& file, T value) {
  file.write(&value, sizeof value);
}

}  // namespace

void FastTextTrainer::add(std::string_view label, std::string_view text) {
  const auto [found, fresh] = label_ids_.emplace(label, static_cast<std::int32_t>(labels_.size()));
  if (fresh) labels_.emplace_back(label);
  examples_.push_back({found->second, std::string(text)});
}

// Entries as fastText has them: words by falling count, then labels by falling count.
void FastTextTrainer::build_vocabulary(FastTextModel& model) const {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const Example& example : examples_)
    FastTextModel::each_word(example.text, [&](std::string_view word) { ++counts[std::string(word)]; });
  std::vector<std::pair<std::string, std::int64_t>> words;
  for (auto& [word, count] : counts)
    if (count >= options_.min_count && !word.starts_with(FastTextModel::kLabelPrefix))
      words.emplace_back(word, count);
  std::sort(words.begin(), words.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  for (auto& [word, count] : words) {
    model.words_.emplace(word, static_cast<std::int32_t>(model.word_counts_.size()));
    model.word_counts_.push_back(count);
  }
  model.word_count_ = std::ssize(words);
  model.labels_ = labels_;
}

FastTextModel FastTextTrainer::train() {
  require<DataError>(labels_.size() >= 2, "{} label{}; a classifier needs examples of two or more",
                     labels_.size(), labels_.size() == 1 ? "" : "s");
  FastTextModel model;
  model.dim_ = options_.dim;
  model.word_ngrams_ = options_.word_ngrams;
  const bool shares_rows = options_.word_ngrams > 1 || options_.maxn > 0;
  model.bucket_ = shares_rows ? options_.buckets : 0;
  model.minn_ = options_.minn;
  model.maxn_ = options_.maxn;
  model.loss_ = FastTextModel::Loss::kSoftmax;
  build_vocabulary(model);

  const PhiloxKey key = philox_key(options_.seed, RandomPurpose::kInit, "classifier");
  model.input_.rows = model.word_count_ + model.bucket_;
  model.output_.rows = std::ssize(labels_);
  model.input_.columns = model.output_.columns = options_.dim;
  model.input_.values.resize(static_cast<std::size_t>(model.input_.rows * options_.dim));
  model.output_.values.resize(static_cast<std::size_t>(model.output_.rows * options_.dim));
  for (std::size_t i = 0; i < model.input_.values.size(); ++i) {
    const double uniform = static_cast<double>(philox_word(key, i)) / 4294967296.0;
    model.input_.values[i] = static_cast<float>((2 * uniform - 1) / options_.dim);
  }

  std::vector<std::vector<std::int32_t>> rows;
  std::vector<std::int64_t> found;
  for (Example& example : examples_) {
    found.clear();
    model.add_rows(example.text, found);
    rows.emplace_back(found.begin(), found.end());
    example.text = {};
  }
  for (std::int32_t epoch = 0; epoch < options_.epochs; ++epoch) pass(model, epoch, rows);
  constexpr std::int32_t kPartLength = 2;  // as fastText's default
  if (options_.quantize)
    model.input_.quantise(kPartLength, philox_key(options_.seed, RandomPurpose::kSampling, "quantiser"));
  return model;
}

// One epoch of stochastic gradient descent, a step per example, in an order of its own.
void FastTextTrainer::pass(FastTextModel& model, std::int32_t epoch,
                           const std::vector<std::vector<std::int32_t>>& rows) const {
  std::vector<std::uint32_t> order(rows.size());
  std::iota(order.begin(), order.end(), 0U);
  const PhiloxKey key =
      philox_key(options_.seed, RandomPurpose::kSampling, fmt::format("classifier {}", epoch));
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[philox_word(key, i) % i]);

  const auto dim = static_cast<std::size_t>(options_.dim);
  const std::size_t labels = labels_.size();
  std::vector<float> hidden(dim), gradient(dim), scores(labels);
  for (std::size_t step = 0; step < order.size(); ++step) {
    const auto& features = rows[order[step]];
    if (features.empty()) continue;
    const double done =
        (static_cast<double>(epoch) + static_cast<double>(step) / static_cast<double>(order.size())) /
        options_.epochs;
    const auto rate = static_cast<float>(options_.rate * (1 - done));
    std::fill(hidden.begin(), hidden.end(), 0.0F);
    for (const std::int32_t row : features) model.input_.add_row(row, hidden);
    const float share = 1.0F / static_cast<float>(features.size());
    for (float& h : hidden) h *= share;

    for (std::size_t l = 0; l < labels; ++l)
      scores[l] = model.output_.dot_row(static_cast<std::int64_t>(l), hidden);
    const float most = *std::max_element(scores.begin(), scores.end());
    float sum = 0;
    for (float& s : scores) sum += s = std::exp(s - most);
    std::fill(gradient.begin(), gradient.end(), 0.0F);
    for (std::size_t l = 0; l < labels; ++l) {
      const float target = examples_[order[step]].label == static_cast<std::int32_t>(l) ? 1.0F : 0.0F;
      const float alpha = rate * (target - scores[l] / sum);
      float* const out = model.output_.values.data() + l * dim;
      for (std::size_t d = 0; d < dim; ++d) {
        gradient[d] += alpha * out[d];
        out[d] += alpha * hidden[d];
      }
    }
    for (const std::int32_t row : features) {
      float* const in = model.input_.values.data() + static_cast<std::size_t>(row) * dim;
      for (std::size_t d = 0; d < dim; ++d) in[d] += share * gradient[d];
    }
  }
}

// The order of fields: fasttext_model.h.
void FastTextTrainer::write(const FastTextModel& model, const fs::path& path) {
  AtomicFile file(path);
  for (const std::int32_t value : {FastTextModel::kMagic, FastTextModel::kVersion}) put(file, value);
  constexpr std::int32_t kWindow = 5, kNegatives = 5, kUpdateRate = 100;
  for (const std::int32_t value :
       {model.dim_, kWindow, 5, 1, kNegatives, model.word_ngrams_, static_cast<std::int32_t>(model.loss_),
        FastTextModel::kSupervised, model.bucket_, model.minn_, model.maxn_, kUpdateRate})
    put(file, value);
  put(file, 1e-4);
  const auto words = static_cast<std::int32_t>(model.word_count_);
  const auto labels = static_cast<std::int32_t>(model.labels_.size());
  for (const std::int32_t value : {words + labels, words, labels}) put(file, value);
  put(file, std::accumulate(model.word_counts_.begin(), model.word_counts_.end(), std::int64_t{0}));
  put(file, std::int64_t{-1});  // nothing is pruned
  std::vector<std::string_view> names(static_cast<std::size_t>(words));
  for (const auto& [word, row] : model.words_) names[static_cast<std::size_t>(row)] = word;
  const auto put_entry = [&](const std::string& text, std::int64_t count, std::int8_t kind) {
    file.write(text.c_str(), text.size() + 1);
    put(file, count);
    put(file, kind);
  };
  for (std::size_t i = 0; i < names.size(); ++i) put_entry(std::string(names[i]), model.word_counts_[i], 0);
  for (const std::string& label : model.labels_)
    put_entry(std::string(FastTextModel::kLabelPrefix) + label, 1, 1);
  for (const auto* matrix : {&model.input_, &model.output_}) {
    put(file, static_cast<std::int8_t>(matrix->quantised));
    if (matrix->quantised) put(file, std::int8_t{0});  // no norms apart
    put(file, matrix->rows);
    put(file, matrix->columns);
    if (!matrix->quantised) {
      file.write(matrix->values.data(), matrix->values.size() * sizeof(float));
      continue;
    }
    put(file, static_cast<std::int32_t>(matrix->codes.size()));
    file.write(matrix->codes.data(), matrix->codes.size());
    for (const std::int32_t value :
         {static_cast<std::int32_t>(matrix->columns), matrix->parts, matrix->part, matrix->last_part})
      put(file, value);
    file.write(matrix->centroids.data(), matrix->centroids.size() * sizeof(float));
  }
  file.commit();
}

}  // namespace stoa::curate
