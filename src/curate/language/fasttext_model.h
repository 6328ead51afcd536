// Classifiers that fastText 0.9 trained and wrote (.bin, quantised .ftz): lid.176, GlotLID, quality models.
// Read with all sizes checked, and applied as fastText applies them.
//
//   int32 magic 793712314, version 12; 12 int32 of settings, double; int32 entries, words, labels; int64
//   tokens, pruned pairs; entries: text, zero byte, int64 count, int8 kind; pairs of int32; byte: quantised;
//   matrix of the words; byte: output quantised; matrix of the labels (github.com/facebookresearch/fastText,
//   fasttext.cc)
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/file.h"
#include "base/philox.h"

namespace stoa::curate {

class FastTextModel {
 public:
  // What a file begins with, the kind of model that classifies, and what marks a label among the words.
  static constexpr std::int32_t kMagic = 793712314, kVersion = 12, kSupervised = 3;
  static constexpr std::string_view kLabelPrefix = "__label__", kEndOfLine = "</s>";

  // Calls `visit` with every word of a text and with kEndOfLine, which ends it.
  template <class Visit>
  static void each_word(std::string_view text, Visit&& visit) {
    const auto is_blank = [](char c) {
      return c == ' ' || c == '\n' || c == '\r' || c == '\t' || c == '\v' || c == '\f' || c == '\0';
    };
    for (std::size_t at = 0; at < text.size();) {
      std::size_t end = at;
      while (end < text.size() && !is_blank(text[end])) ++end;
      if (end > at) visit(text.substr(at, end - at));
      at = end + 1;
    }
    visit(kEndOfLine);
  }

  // DataError where the file is damaged, or no classifier.
  explicit FastTextModel(const fs::path& path);
  FastTextModel(std::string content, const std::string& name);

  const std::vector<std::string>& labels() const { return labels_; }  // without __label__

  // The probability of every label, as fastText's predict() gives it, for a line of text (line ends are
  // blanks). All 0 for a text without a known word or part of one.
  void predict(std::string_view text, std::vector<float>& probabilities) const;

 private:
  friend class FastTextTrainer;
  FastTextModel() = default;

  enum class Loss : std::int32_t { kHierarchical = 1, kNegative = 2, kSoftmax = 3, kOneVsAll = 4 };

  // Rows of floats, plain or as codes of a product quantiser.
  struct Matrix {
    std::int64_t rows = 0, columns = 0;
    std::vector<float> values;
    bool quantised = false, with_norms = false;
    std::int32_t parts = 0, part = 0, last_part = 0;  // sub-vectors and their lengths
    std::vector<std::uint8_t> codes, norm_codes;
    std::vector<float> centroids, norms;
    // Into stretches of `part_length` columns; draws from the stream of `key`.
    void quantise(std::int32_t part_length, const PhiloxKey& key);
    void add_row(std::int64_t row, std::span<float> to) const;
    float dot_row(std::int64_t row, std::span<const float> with) const;
  };
  struct TreeNode {
    std::int32_t left = -1, right = -1;
  };
  class Reader;

  void read(Reader& in);
  static Matrix read_matrix(Reader& in, bool quantised);
  void build_tree(const std::vector<std::int64_t>& counts);
  void add_subwords(std::string_view word, std::vector<std::int64_t>& rows) const;
  void push_bucket(std::uint64_t bucket, std::vector<std::int64_t>& rows) const;
  void add_rows(std::string_view text, std::vector<std::int64_t>& rows) const;

  std::int32_t dim_ = 0, word_ngrams_ = 0, bucket_ = 0, minn_ = 0, maxn_ = 0;
  Loss loss_ = Loss::kSoftmax;
  std::unordered_map<std::string, std::int32_t> words_;
  std::int64_t word_count_ = 0;
  std::vector<std::int64_t> word_counts_;  // by row, of a model that was trained here
  std::vector<std::string> labels_;
  bool pruned_ = false;
  std::vector<std::uint64_t> kept_;                        // of pruned buckets: a bit for each that stays
  std::unordered_map<std::int32_t, std::int32_t> places_;  // of those
  Matrix input_, output_;
  std::vector<TreeNode> tree_;
};

}  // namespace stoa::curate
