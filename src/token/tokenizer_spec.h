// Everything that defines a tokenizer, as plain data: what files are parsed into and written
// from.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "token/added_tokens.h"
#include "token/bpe.h"
#include "token/split.h"
#include "token/wordpiece.h"

namespace stoa::token {

namespace fs = std::filesystem;
class SentencePiece;

// How text becomes the symbols that are merged.
enum class SymbolForm : std::uint8_t {
  kByteLevel,  // bytes, written in the byte alphabet; words are cut by a pattern first (GPT-2, Llama-3, Qwen)
  kSentencePiece,  // characters, spaces as U+2581 and one in front, bytes <0xNN> for what has no token
                   // (Llama-2, Mistral)
  kWordPiece,      // words of normalized text, cut into the longest pieces (BERT)
  kModel,          // what a SentencePiece model makes of a text (T5, mT5)
};

// For sentencepiece form and models the fields split, add_prefix_space, trim_offsets and nfc have no meaning.
struct TokenizerSpec {
  SymbolForm form = SymbolForm::kByteLevel;
  std::vector<std::string> vocabulary;         // by id, as written in files; "" where an id has no token
  std::vector<Merge> merges;                   // by rank
  WordPieceOptions wordpiece;                  // of form kWordPiece
  std::shared_ptr<const SentencePiece> model;  // of form kModel
  SplitPattern split = SplitPattern::kGpt2;
  bool add_prefix_space = false;  // a space before a text that begins with none
  bool trim_offsets = true;       // kept for saving: Stoa has no offsets
  bool ignore_merges = false;     // a word that is a token is taken whole
  bool nfc = false;               // normalizer
  std::vector<AddedToken> added;
  std::vector<TokenId> before, after;  // what add_special puts around a text
  std::string bos, eos, pad, unk;      // contents; "" where there is none
  std::string cls, sep, mask;          // of encoders
  std::optional<bool> add_bos;         // tokenizer_config.json
  std::string chat_template;           // Jinja text, "" where there is none
  std::optional<std::int64_t> model_max_length;
  std::optional<std::int64_t> sentinels;  // tokenizer_config.json of T5: extra_ids
};

// A tokenizer.json. DataError names what is malformed or what Stoa does not do; nothing is ignored.
TokenizerSpec parse_tokenizer_json(std::string_view json);
// A vocab.json and a merges.txt with GPT-2's pattern; <|endoftext|> is special where the vocabulary has it.
TokenizerSpec parse_vocab_merges(std::string_view vocab_json, std::string_view merges_txt);
// Adds bos, eos, pad, added tokens and chat template of tokenizer_config.json / special_tokens_map.json
// texts.
void apply_tokenizer_config(std::string_view json, TokenizerSpec& spec);

// A vocab.txt of BERT: one token per line. [PAD], [UNK], [CLS], [SEP] and [MASK] are special; DataError
// without [UNK] and for what is not UTF-8.
TokenizerSpec parse_vocab_txt(std::string_view vocab_txt);

std::string tokenizer_json(const TokenizerSpec& spec);
std::string vocab_json(const TokenizerSpec& spec);
std::string merges_txt(const TokenizerSpec& spec);
std::string vocab_txt(const TokenizerSpec& spec);
std::string tokenizer_config_json(const TokenizerSpec& spec);
std::string special_tokens_map_json(const TokenizerSpec& spec);

}  // namespace stoa::token
