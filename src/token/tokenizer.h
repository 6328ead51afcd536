// Tokenizers: byte-level BPE from the files of Hugging Face and GPT-2, encoding to the same ids, exact
// decoding; and SentencePiece models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "token/byte_alphabet.h"
#include "token/normalize.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {

struct EncodeOptions {
  bool plain = false;  // special tokens in the text are encoded as text (Hugging Face: encode_special_tokens)
  bool add_special = false;  // what the tokenizer's post-processor adds (bos, eos)
};
struct DecodeOptions {
  bool skip_special = false;
};

// Immutable; copies share. Encoding any bytes: text that is not UTF-8 is encoded byte for byte (an invalid
// byte counts as punctuation when words are cut), and decoding gives exactly the bytes back, unless the
// tokenizer normalizes, lacks tokens for such bytes, or is of form kComponents: then what is not UTF-8 is
// U+FFFD.
class Tokenizer {
 public:
  // A directory with spiece.model, tokenizer.json, tekken.json, tokenizer.model, vocab.txt, vocab.json +
  // merges.txt, encoder.json + vocab.bpe, or a .tiktoken (the first that is there counts); a .model; a
  // tokenizer.json; a tekken.json; a .tiktoken; or one of vocab.json / encoder.json beside its merges.
  // tokenizer_config.json, special_tokens_map.json and chat_template.jinja beside them are read. IoError when
  // missing; DataError names what is wrong or unsupported.
  static Tokenizer load(const fs::path& path);
  // A .model alone, with so many sentinels after its pieces (token/sentencepiece.h).
  static Tokenizer load_sentencepiece(const fs::path& model, std::int64_t sentinels);
  static Tokenizer from_json(std::string_view tokenizer_json);
  explicit Tokenizer(TokenizerSpec spec);  // DataError when the parts contradict each other

  // Writes the file that it was read from as it was, or tokenizer.json, vocab.json, merges.txt (or
  // spiece.model), with tokenizer_config.json and special_tokens_map.json, each atomically.
  void save(const fs::path& directory) const;

  // One text, without a word cache: for a prompt. Encoder is for much text.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  // The bytes of the tokens. DataError for an id outside the vocabulary.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;
  // Of one token behind another; "" for an id without a token. What stands around it may change it (form
  // kComponents: StreamDecoder gives the text as it grows).
  std::string_view token_bytes(TokenId id) const;

  std::int64_t vocab_size() const;                                   // largest id + 1
  std::optional<TokenId> token_to_id(std::string_view token) const;  // as written in files ("Ġthe")
  std::string id_to_token(TokenId id) const;
  bool is_special(TokenId id) const;
  std::span<const AddedToken> added_tokens() const;

  std::optional<TokenId> bos_id() const, eos_id() const, pad_id() const, unk_id() const;
  // Of encoders: what begins a text, what ends a segment, what stands for a token that is to be predicted.
  std::optional<TokenId> cls_id() const, sep_id() const, mask_id() const;
  // The token goes on with the word of the one before (WordPiece).
  bool continues_word(TokenId id) const;
  // <extra_id_0>, <extra_id_1> and so on: what stands for a span of text that T5 is to fill in.
  std::vector<TokenId> sentinel_ids() const;
  // Ends a document in training data: eos, or <|endoftext|>, </s>, <|end_of_text|> where no eos is named.
  std::optional<TokenId> eod_id() const;

  // 16 hexadecimal digits over vocabulary, merges, split pattern, normalizer and added tokens: equal for all
  // file forms.
  const std::string& fingerprint() const;
  const std::string& chat_template() const;  // Jinja text, "" when the tokenizer has none
  const TokenizerSpec& spec() const;

 private:
  friend class Encoder;
  friend class OffsetEncoder;
  struct Data;
  std::shared_ptr<const Data> data_;
};

}  // namespace stoa::token
