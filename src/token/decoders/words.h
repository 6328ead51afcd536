// Decoders of tokens that stand for pieces of words: WordPiece, Metaspace, BPEDecoder, CTC, Replace, Strip,
// Fuse.
#pragma once

#include "token/decoders/decoder.h"
#include "token/normalizers/edits.h"
#include "token/pre_tokenizers/rewrites.h"

namespace stoa::token {

// Takes the blanks away that BERT's tokens leave before punctuation and in contractions.
void clean_up_blanks(std::string& text);

class WordPieceDecoder final : public Decoder {
 public:
  WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  const std::string prefix_;
  const bool cleanup_;
};

class MetaspaceDecoder final : public Decoder {
 public:
  MetaspaceDecoder(char32_t replacement, PrependScheme scheme);
  void apply(std::vector<std::string>& tokens) const override;

 private:
  std::string replacement_;
  const PrependScheme scheme_;
};

// A suffix marks the end of a word: a blank, but behind the last token.
class SuffixDecoder final : public Decoder {
 public:
  explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  const std::string suffix_;
};

// Connectionist temporal classification: equal tokens that touch are one, the pad token is nothing.
class CtcDecoder final : public Decoder {
 public:
  CtcDecoder(std::string pad, std::string delimiter, bool cleanup)
      : pad_(std::move(pad)), delimiter_(std::move(delimiter)), cleanup_(cleanup) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  const std::string pad_, delimiter_;
  const bool cleanup_;
};

class ReplaceDecoder final : public Decoder {
 public:
  ReplaceDecoder(TextPattern pattern, std::string content)
      : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(std::vector<std::string>& tokens) const override;

 private:
  const TextPattern pattern_;
  const std::string content_;
};

// Takes up to `start` of a character away from the front of each token, up to `stop` from its end.
class StripDecoder final : public Decoder {
 public:
  StripDecoder(char32_t content, std::uint64_t start, std::uint64_t stop);
  void apply(std::vector<std::string>& tokens) const override;

 private:
  std::string content_;
  const std::uint64_t start_, stop_;
};

// All tokens become one.
class FuseDecoder final : public Decoder {
 public:
  void apply(std::vector<std::string>& tokens) const override;
};

}  // namespace stoa::token
