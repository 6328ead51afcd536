// Models of whole words: WordLevel, and WordPiece, which cuts a word into the longest pieces from left to
// right.
#pragma once

#include "token/models/model.h"

namespace stoa::token {

class WordLevel final : public Model {
 public:
  WordLevel(Vocabulary vocabulary, std::string unknown);
  static std::unique_ptr<const WordLevel> read(json::object o);
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view unknown_token() const override { return unknown_; }

 private:
  const Vocabulary vocabulary_;
  const std::string unknown_;
  const TokenId unknown_id_;  // -1: none
};

class WordPieceModel final : public Model {
 public:
  WordPieceModel(Vocabulary vocabulary, std::string unknown, std::string prefix,
                 std::uint64_t max_characters);
  static std::unique_ptr<const WordPieceModel> read(json::object o);
  void encode(std::string_view piece, ModelScratch& scratch, std::vector<ModelToken>& out) const override;
  const Vocabulary& vocabulary() const override { return vocabulary_; }
  std::string_view unknown_token() const override { return unknown_; }

 private:
  const Vocabulary vocabulary_;
  const std::string unknown_, prefix_;
  const TokenId unknown_id_;  // -1: none
  const std::uint64_t max_characters_;
  std::size_t longest_ = 0;  // bytes of a token
};

}  // namespace stoa::token
