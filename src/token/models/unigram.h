// Unigram language model (Kudo 2018): of all ways to spell a piece the one with the highest sum of
// log-probabilities.
#pragma once

#include <array>

#include "token/models/model.h"

namespace stoa::token {

class Unigram final : public Model {
 public:
  // `scores` by id. `unknown`: the id for characters without a token, -1: none.
  Unigram(Vocabulary vocabulary, std::vector<double> scores, TokenId unknown, bool byte_fallback);
  static std::unique_ptr<const Unigram> read(json::object o);
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view unknown_token() const override {
    return unknown_ < 0 ? std::string_view() : vocabulary_.tokens[static_cast<std::size_t>(unknown_)];
  }

 private:
  // A trie over bytes: the children of a node lie side by side, by byte.
  struct Node {
    std::uint32_t first = 0;  // of its children
    std::uint16_t count = 0;
    TokenId token = -1;
  };
  void build();
  void emit(std::string_view text, std::uint32_t begin, ModelScratch& scratch,
            std::vector<ModelToken>& out) const;

  const Vocabulary vocabulary_;
  const std::vector<double> scores_;
  const TokenId unknown_;
  const bool byte_fallback_;
  double unknown_score_ = 0;
  std::vector<Node> nodes_;
  std::vector<std::uint8_t> labels_;        // of the same node
  std::array<std::uint32_t, 256> roots_{};  // children of the root; 0: none
  std::array<TokenId, 256> byte_ids_{};
};

}  // namespace stoa::token
