// Everything that defines a tokenizer, as plain data: files are parsed into it and written from
// it.
#pragma once

#include <filesystem>
#include <map>
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
class Pipeline;
class PreTokenizer;
class SentencePiece;

// How text is turned into the symbols that are merged.
enum class SymbolForm : std::uint8_t {
  kByteLevel,  // bytes, written in the byte alphabet; words are cut by a pattern first (GPT-2, Llama-3, Qwen)
  kSentencePiece,  // characters, spaces as U+2581 and one in front, bytes <0xNN> for what has no token
                   // (Llama-2, Mistral)
  kWordPiece,      // words of normalized text, split into the longest pieces (BERT)
  kModel,          // tokens by a SentencePiece model (T5, mT5)
  kComponents,     // a pipeline of the components of a tokenizer.json: everything else
};

// A file's original text, so that it can be written unchanged.
struct OriginalFile {
  std::string name, text;  // "tokenizer.json"; "" where there was none
};

// Special tokens around two texts that are encoded as one: BERT's [CLS] A [SEP] B [SEP].
struct PairSurroundings {
  std::vector<TokenId> before, between, after;
};

// In forms kSentencePiece, kModel and kComponents the fields split, add_prefix_space, trim_offsets and nfc
// are unused. Code that changes a field contained in the original file must clear `original`.
struct TokenizerSpec {
  SymbolForm form = SymbolForm::kByteLevel;
  std::vector<std::string> vocabulary;         // by id, as written in files; "" where an id has no token
  std::vector<Merge> merges;                   // by rank
  WordPieceOptions wordpiece;                  // of form kWordPiece
  std::shared_ptr<const SentencePiece> model;  // of form kModel
  std::shared_ptr<const Pipeline> pipeline;    // of form kComponents
  SplitPattern split = SplitPattern::kGpt2;
  std::shared_ptr<const PreTokenizer> cutter;  // of split kOther
  std::string cutter_identity;                 // identifies it: JSON or a regular expression
  bool add_prefix_space = false;               // a space before a text that begins with none
  bool trim_offsets = true;                    // offsets exclude spaces at the ends of a token
  bool ignore_merges = false;                  // a word that is a token is not merged
  bool rank_by_result = false;  // merges rank by the id of their result, not by their order (tiktoken)
  bool nfc = false;             // normalizer
  std::vector<AddedToken> added;
  std::vector<TokenId> before, after;                 // added around a text by add_special
  std::optional<PairSurroundings> pair;               // if the files define it
  std::string bos, eos, pad, unk;                     // contents; "" where there is none
  std::string cls, sep, mask;                         // for encoders
  std::optional<bool> add_bos;                        // tokenizer_config.json
  std::string chat_template;                          // Jinja text, "" where there is none
  std::map<std::string, std::string> more_templates;  // by name, besides the one for chats without tools
  std::optional<std::int64_t> model_max_length;
  std::optional<std::int64_t> sentinels;  // tokenizer_config.json of T5: extra_ids
  std::string pattern;                    // tokenizer_config.json: pat_str of a .tiktoken file
  OriginalFile original;
};

// Which form a tokenizer.json gets: the fastest one that gives its ids, or always kComponents.
enum class TokenizerForms : std::uint8_t { kQuickest, kComponentsAlone };
// A tokenizer.json. DataError names what is malformed or unsupported; nothing is ignored.
TokenizerSpec parse_tokenizer_json(std::string_view json, TokenizerForms forms = TokenizerForms::kQuickest);

// How vocab.json and merges.txt are to be used, according to tokenizer_config.json.
struct TokenizerClass {
  std::string name;  // tokenizer_class: "RobertaTokenizer"; "" if missing
  std::optional<bool> add_prefix_space;
  // Contents; "" if missing.
  std::string bos, eos, unk, cls, sep, pad, mask;
  std::string pattern;  // pat_str
};
TokenizerClass read_tokenizer_class(std::string_view tokenizer_config_json);
// vocab.json and merges.txt with the text splitting of the class; without a class, GPT-2's. DataError for an
// unknown class: its ids would be silently wrong. Without a class, <|endoftext|> is special if it is in the
// vocabulary.
TokenizerSpec parse_vocab_merges(std::string_view vocab_json, std::string_view merges_txt,
                                 const TokenizerClass& how = {});
// Adds bos, eos, pad, added tokens and chat template of tokenizer_config.json / special_tokens_map.json
// texts.
void apply_tokenizer_config(std::string_view json, TokenizerSpec& spec);

// The files that transformers wrote next to a vocabulary before it had tokenizer.json; "" where missing.
struct LegacyTokenFiles {
  std::string added_tokens, special_tokens_map, tokenizer_config;
};
// Adds what only those files say: the tokens of added_tokens.json with their ids, and as special tokens the
// entries of the vocabulary that have a role or are additional_special_tokens.
void apply_legacy_tokens(const LegacyTokenFiles& files, TokenizerSpec& spec);

// Whether a file has the format of parse_tiktoken: Llama-3's tokenizer.model does, whose name suggests
// SentencePiece.
bool holds_ranks(std::string_view text);
// A .tiktoken file: lines of base64 bytes and a rank. `pattern`: tiktoken's regular expression that splits
// texts; if empty, `file_name` must identify pattern and special tokens (cl100k_base.tiktoken), else
// DataError.
TokenizerSpec parse_tiktoken(std::string_view text, std::string_view file_name, std::string_view pattern);
// Mistral's tekken.json.
TokenizerSpec parse_tekken(std::string_view json);

// BERT's vocab.txt: one token per line. [PAD], [UNK], [CLS], [SEP] and [MASK] are special; DataError without
// [UNK], or for invalid UTF-8.
TokenizerSpec parse_vocab_txt(std::string_view vocab_txt);

std::string tokenizer_json(const TokenizerSpec& spec);
std::string vocab_json(const TokenizerSpec& spec);
std::string merges_txt(const TokenizerSpec& spec);
std::string vocab_txt(const TokenizerSpec& spec);
std::string tokenizer_config_json(const TokenizerSpec& spec);
std::string special_tokens_map_json(const TokenizerSpec& spec);

}  // namespace stoa::token
