// Labelled text as rows of tokens. As an encoder reads them: [CLS] A [SEP], and two texts as the tokenizer's
// files say: [CLS] A [SEP] B [SEP] with types 0 and 1 (BERT), <s> A </s></s> B </s> without types (RoBERTa,
// XLM-R). As a decoder reads them: with the special tokens that the tokenizer's files put around a text.
#pragma once

#include <memory>

#include "data/labelled_dataset.h"
#include "data/labelled_text.h"
#include "model/config.h"
#include "token/offset_encoder.h"
#include "token/tokenizer.h"

namespace stoa::infer {

// Used by one thread.
class RowEncoder {
 public:
  // `longest`: tokens of a row, virtual ones in front included, whose ids follow the `vocabulary`.
  // ConfigError: the tokenizer of an encoder lacks [CLS] or [SEP], or rows are too short for both.
  RowEncoder(const token::Tokenizer& tokenizer, const model::ModelConfig& config, std::int64_t longest,
             std::int64_t vocabulary = 0);

  // A text or pair; what is too long is cut from the end of the longer. The label, if there is one, is that
  // of text_token(). DataError: an unknown label.
  data::LabelledRow text(const data::LabelledText& text, const data::LabelledSource& source) const;

  // The token by which a whole text is classified: an encoder's first, which may be a virtual one as in
  // PEFT, a decoder's last.
  std::int32_t text_token(const data::LabelledRow& row) const;

  // Words; a label is that of a word's first token. Words beyond the end of the row are left out.
  struct Words {
    data::LabelledRow row;
    std::vector<std::int32_t> first;  // token of every word; -1: it has none
  };
  Words words(const data::LabelledWords& words, const data::LabelledSource& source) const;

  std::int64_t longest() const { return longest_; }
  std::int64_t tokens_around_pair() const {
    return static_cast<std::int64_t>(around_.before.size() + around_.between.size() + around_.after.size());
  }
  std::int64_t tokens_after_pair() const { return static_cast<std::int64_t>(around_.after.size()); }
  std::vector<token::TokenId> ids_of(const std::string& text) const;
  // Tokens of the text, each with its range of characters. DataError for SentencePiece models, which have no
  // such offsets.
  token::Encoding with_offsets(const std::string& text);
  // Joins two texts, which are not shortened, with the special tokens around them.
  data::LabelledRow pair(std::span<const token::TokenId> a, std::span<const token::TokenId> b) const;

 private:
  // Appends tokens of a type to a row.
  void add(data::LabelledRow& row, std::span<const token::TokenId> ids, std::int32_t type) const;

  const token::Tokenizer& tokenizer_;
  const model::TaskConfig& task_;
  const bool decoder_, typed_;
  std::int64_t longest_;
  std::vector<token::TokenId> virtual_;         // in front of every row
  std::vector<token::TokenId> before_, after_;  // around one text
  token::PairSurroundings around_;              // around two
  bool blank_before_words_;  // a word of a list is one within a text only with a blank before it
  std::unique_ptr<token::OffsetEncoder> offsets_;  // made when first asked for
};

}  // namespace stoa::infer
