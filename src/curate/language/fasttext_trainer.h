// Trains classifiers as `fasttext supervised` does (softmax over the mean of the vectors of words, of their
// parts and of sequences of words; Joulin et al. 2016) and writes them as its .bin files, which fastText
// itself reads.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "curate/language/fasttext_model.h"

namespace stoa::curate {

struct ClassifierOptions {
  std::int32_t dim = 16;
  std::int32_t epochs = 5;
  double rate = 0.1;                // falls linearly to 0
  std::int32_t word_ngrams = 2;     // words of the longest sequence
  std::int32_t min_count = 1;       // rarer words have no row of their own
  std::int32_t buckets = 200'000;   // rows that sequences and parts of words share
  std::int32_t minn = 0, maxn = 0;  // characters of parts of words; 0: none
  std::uint64_t seed = 1;
  bool quantize = false;  // the model's rows as codes: a byte for two numbers
};

class FastTextTrainer {
 public:
  explicit FastTextTrainer(const ClassifierOptions& options) : options_(options) {}

  // `text` may have several lines.
  void add(std::string_view label, std::string_view text);
  std::int64_t examples() const { return std::ssize(examples_); }

  // The result depends on the examples, their order and the options only. DataError: fewer than two labels.
  FastTextModel train();
  // fastText's file, of a model that train() made.
  static void write(const FastTextModel& model, const fs::path& path);

 private:
  struct Example {
    std::int32_t label;
    std::string text;
  };
  void build_vocabulary(FastTextModel& model) const;
  void pass(FastTextModel& model, std::int32_t epoch,
            const std::vector<std::vector<std::int32_t>>& rows) const;

  const ClassifierOptions options_;
  std::vector<std::string> labels_;
  std::unordered_map<std::string, std::int32_t> label_ids_;
  std::vector<Example> examples_;
};

}  // namespace stoa::curate
