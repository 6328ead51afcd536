// Pre-tokenizers that change the text of the pieces: Metaspace, ByteLevel.
#pragma once

#include <optional>

#include "token/pre_tokenizers/pre_tokenizer.h"
#include "token/split.h"

namespace stoa::token {

enum class PrependScheme : std::uint8_t { kAlways, kFirst, kNever };
// Metaspace's prepend_scheme, or add_prefix_space of old files. Also of its decoder.
PrependScheme read_prepend_scheme(json::object o, std::string_view where);

// Blanks become a character, one in front of the text or of every piece; pieces begin at it.
class Metaspace final : public PreTokenizer {
 public:
  Metaspace(char32_t replacement, PrependScheme scheme, bool split);
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  std::string replacement_;
  const PrependScheme scheme_;
  const bool split_;
};

// The words of ByteLevel alone: the text stays as it is.
class SplitLikeGpt2 final : public PreTokenizer {
 public:
  SplitLikeGpt2() : words_(SplitPattern::kGpt2) {}
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const Splitter words_;
};

// A blank in front, GPT-2's words, bytes as characters of the byte alphabet.
class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool add_prefix_space, bool use_regex);
  void apply(Pieces& pieces, PieceScratch& scratch) const override;

 private:
  const bool add_prefix_space_;
  std::optional<SplitLikeGpt2> words_;
};

}  // namespace stoa::token
