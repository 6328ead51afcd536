// SentencePiece models (Kudo, Richardson 2018): a unigram or BPE vocabulary over characters with a
// normalization of its own, as in the `.model` files of T5, mT5 and Llama-2. The one place that uses the
// SentencePiece library.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "token/trainer.h"

namespace stoa::token {

class SentencePiece {
 public:
  // The bytes of a `.model` file. DataError when they are none.
  explicit SentencePiece(std::string model);
  ~SentencePiece();
  SentencePiece(const SentencePiece&) = delete;
  SentencePiece& operator=(const SentencePiece&) = delete;

  const std::string& model() const { return model_; }
  std::int64_t size() const;
  const std::string& piece(TokenId id) const;
  bool is_control(TokenId id) const;  // <pad>, </s>: never the result of encoding a text
  // -1 where the model has none.
  TokenId unk_id() const, bos_id() const, eos_id() const, pad_id() const;

  // Decoding leaves out the blank with which the first piece begins: the model puts one in front of every
  // text, or does away with it there.
  bool drops_first_blank() const { return drops_first_blank_; }

  // Appends the ids of a text; may be called by several threads.
  void encode(std::string_view text, std::vector<TokenId>& out) const;

 private:
  struct Library;
  std::string model_;
  std::unique_ptr<const Library> library_;
  bool drops_first_blank_ = true;
};

enum class SentencePieceKind : std::uint8_t { kUnigram, kBpe };

struct SentencePieceTraining {
  SentencePieceKind kind = SentencePieceKind::kUnigram;
  std::int64_t vocab_size = 32000;  // <pad>, </s>, <unk> and bytes included, sentinels not
  double character_coverage = 0.9995;
  bool byte_fallback = false;  // what has no piece becomes bytes, not <unk>
  int workers = 1;
};

// The bytes of a model with <pad> 0, </s> 1, <unk> 2, as T5's. Texts are normalized by NFKC. ConfigError for
// a vocabulary that the texts cannot fill or that is smaller than their alphabet; DataError without text.
std::string train_sentencepiece(const TextSource& source, const SentencePieceTraining& options);

// The tokenizer of a model: its control tokens are special, and </s> ends a text as in T5, or, where the
// model knows <s>, <s> begins it as in Llama-2.
TokenizerSpec sentencepiece_spec(std::shared_ptr<const SentencePiece> model);
// Adds <extra_id_0> ... <extra_id_{count-1}> with falling ids, so that <extra_id_0> is the last of the
// vocabulary (Raffel et al. 2020).
void add_sentinels(std::int64_t count, TokenizerSpec& spec);

}  // namespace stoa::token
