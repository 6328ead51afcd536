// Tokenizers: byte-level BPE from the files of Hugging Face and GPT-2 with identical ids and exact decoding;
// and SentencePiece models.
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
  bool add_special = false;  // add what the post-processor adds (bos, eos)
};
struct DecodeOptions {
  bool skip_special = false;
};

// Immutable; copies share data. Any bytes can be encoded: invalid UTF-8 is encoded byte for byte (an invalid
// byte counts as punctuation when words are split), and decoding returns exactly the same bytes, unless the
// tokenizer normalizes, lacks tokens for such bytes, or has form kComponents: then invalid UTF-8 becomes
// U+FFFD.
class Tokenizer {
 public:
  // `path` is a directory with spiece.model, tokenizer.json, tekken.json, tokenizer.model, vocab.txt,
  // vocab.json + merges.txt, encoder.json + vocab.bpe or a .tiktoken (the first of these that exists is
  // used), or a .model, tokenizer.json, tekken.json, .tiktoken or .gguf file, or a vocab.json / encoder.json
  // next to its merges. tokenizer_config.json, special_tokens_map.json and chat_template.jinja in the
  // directory are read too. IoError: nothing found; DataError names what is wrong or unsupported.
  static Tokenizer load(const fs::path& path);
  // A .model alone, with `sentinels` sentinel tokens after its pieces (token/sentencepiece.h).
  static Tokenizer load_sentencepiece(const fs::path& model, std::int64_t sentinels);
  static Tokenizer from_json(std::string_view tokenizer_json);
  explicit Tokenizer(TokenizerSpec spec);  // DataError when the parts contradict each other

  // Writes the original file unchanged, if there is one, or tokenizer.json, vocab.json, merges.txt (or
  // spiece.model), with tokenizer_config.json and special_tokens_map.json, each atomically.
  void save(const fs::path& directory) const;

  // Encodes one text without a cache of words: for prompts. Use Encoder for large amounts of text.
  std::vector<TokenId> encode(std::string_view text, EncodeOptions options = {}) const;
  // The bytes of the tokens. DataError for an id outside the vocabulary.
  std::string decode(std::span<const TokenId> ids, DecodeOptions options = {}) const;
  // The text of one token that follows another; "" for an id without a token. Its context may change it (form
  // kComponents: StreamDecoder returns the text as it grows).
  std::string_view token_bytes(TokenId id) const;

  std::int64_t vocab_size() const;                                   // largest id + 1
  std::optional<TokenId> token_to_id(std::string_view token) const;  // as written in files ("Ġthe")
  std::string id_to_token(TokenId id) const;
  bool is_special(TokenId id) const;
  std::span<const AddedToken> added_tokens() const;

  std::optional<TokenId> bos_id() const, eos_id() const, pad_id() const, unk_id() const;
  // Encoders' special tokens: start of a text, end of a segment, mask for a token to be predicted.
  std::optional<TokenId> cls_id() const, sep_id() const, mask_id() const;
  // Whether the token continues the previous token's word (WordPiece).
  bool continues_word(TokenId id) const;
  // <extra_id_0>, <extra_id_1> and so on: each stands for a span of text that T5 is to fill in.
  std::vector<TokenId> sentinel_ids() const;
  // Ends a document in training data: eos or, if no eos is named, <|endoftext|>, </s>, <|end_of_text|>.
  std::optional<TokenId> eod_id() const;

  // 16 hexadecimal digits over vocabulary, merges, split pattern, normalizer and added tokens: equal for all
  // file formats.
  const std::string& fingerprint() const;
  // Jinja text, "" when the tokenizer has none; of several without a default the first by its name.
  const std::string& chat_template() const;
  // The one for chats with tools: "tool_use" where there are several, as in transformers.
  const std::string& tool_template() const;
  const TokenizerSpec& spec() const;

 private:
  friend class Encoder;
  friend class OffsetEncoder;
  struct Data;
  std::shared_ptr<const Data> data_;
};

// Byte-level BPE as two files, in any place:
// GPT-2's vocab.json and merges.txt under any names; settings in addition to the vocabulary count as in
// Tokenizer::load(). IoError, DataError.
Tokenizer load_vocab_merges(const fs::path& vocab, const fs::path& merges);

}  // namespace stoa::token
