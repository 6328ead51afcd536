// BPE over characters or over symbols of any kind, with all options of Hugging Face tokenizers.
#pragma once

#include <optional>

#include "token/models/model.h"

namespace stoa::token {

struct BpeOptions {
  double dropout = 0;  // of training: encoding merges all, but with 1 none
  std::string unknown;
  std::string prefix;  // of symbols that continue a word
  std::string suffix;  // of the last symbol
  bool fuse_unknown = false, byte_fallback = false, ignore_merges = false;
};

class BpeModel final : public Model {
 public:
  BpeModel(Vocabulary vocabulary, std::vector<Merge> merges, BpeOptions options);
  static std::unique_ptr<const BpeModel> read(json::object o);
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view unknown_token() const override { return options_.unknown; }
  const std::vector<Merge>& merges() const { return merges_; }
  const BpeOptions& options() const { return options_; }

 private:
  const Vocabulary vocabulary_;
  const std::vector<Merge> merges_;
  const BpeOptions options_;
  std::vector<TokenId> byte_ids_;  // <0x00> … <0xFF>, -1 where there is none
  std::unique_ptr<const Bpe> bpe_;
};

// Merges of a "merges" list or of lines "left right", by rank. DataError names one whose parts or result are
// not in the vocabulary.
class MergeReader {
 public:
  MergeReader(const Vocabulary& vocabulary, std::size_t prefix) : vocabulary_(vocabulary), prefix_(prefix) {}
  void add(std::string_view left, std::string_view right);
  void add_line(std::string_view line);
  std::vector<Merge> take() { return std::move(merges_); }

 private:
  const Vocabulary& vocabulary_;
  const std::size_t prefix_;  // bytes that the right part loses in the result
  std::string joined_;
  std::vector<Merge> merges_;
};

}  // namespace stoa::token
