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
class Pipeline;
class PreTokenizer;
class SentencePiece;

// How text becomes the symbols that are merged.
enum class SymbolForm : std::uint8_t {
  kByteLevel,  // bytes, written in the byte alphabet; words are cut by a pattern first (GPT-2, Llama-3, Qwen)
  kSentencePiece,  // characters, spaces as U+2581 and one in front, bytes <0xNN> for what has no token
                   // (Llama-2, Mistral)
  kWordPiece,      // words of normalized text, cut into the longest pieces (BERT)
  kModel,          // what a SentencePiece model makes of a text (T5, mT5)
  kComponents,     // what the components of a tokenizer.json make of it, one after another: all else
};

// A file as it was read, so that it can be written again as it was.
struct OriginalFile {
  std::string name, text;  // "tokenizer.json"; "" where there was none
};

// What stands around two texts that are encoded as one: BERT's [CLS] A [SEP] B [SEP].
struct PairSurroundings {
  std::vector<TokenId> before, between, after;
};

// For sentencepiece form, models and components the fields split, add_prefix_space, trim_offsets and nfc have
// no meaning. Who changes a field that the original file says must clear `original`.
struct TokenizerSpec {
  SymbolForm form = SymbolForm::kByteLevel;
  std::vector<std::string> vocabulary;         // by id, as written in files; "" where an id has no token
  std::vector<Merge> merges;                   // by rank
  WordPieceOptions wordpiece;                  // of form kWordPiece
  std::shared_ptr<const SentencePiece> model;  // of form kModel
  std::shared_ptr<const Pipeline> pipeline;    // of form kComponents
  SplitPattern split = SplitPattern::kGpt2;
  std::shared_ptr<const PreTokenizer> cutter;  // of split kOther
  std::string cutter_identity;                 // and what it is: JSON or a regular expression
  bool add_prefix_space = false;               // a space before a text that begins with none
  bool trim_offsets = true;                    // offsets leave out the blanks at the ends of a token
  bool ignore_merges = false;                  // a word that is a token is taken whole
  bool rank_by_result = false;  // merges rank by the id of what they make, not by their order (tiktoken)
  bool nfc = false;             // normalizer
  std::vector<AddedToken> added;
  std::vector<TokenId> before, after;    // what add_special puts around a text
  std::optional<PairSurroundings> pair;  // where the files say it
  std::string bos, eos, pad, unk;        // contents; "" where there is none
  std::string cls, sep, mask;            // of encoders
  std::optional<bool> add_bos;           // tokenizer_config.json
  std::string chat_template;             // Jinja text, "" where there is none
  std::optional<std::int64_t> model_max_length;
  std::optional<std::int64_t> sentinels;  // tokenizer_config.json of T5: extra_ids
  std::string pattern;                    // tokenizer_config.json: pat_str of a .tiktoken file
  OriginalFile original;
};

// Which form a tokenizer.json takes: the quickest that gives its ids, or always kComponents.
enum class TokenizerForms : std::uint8_t { kQuickest, kComponentsAlone };
// A tokenizer.json. DataError names what is malformed or what Stoa does not do; nothing is ignored.
TokenizerSpec parse_tokenizer_json(std::string_view json, TokenizerForms forms = TokenizerForms::kQuickest);

// What a tokenizer_config.json says of how a vocab.json and a merges.txt are used.
struct TokenizerClass {
  std::string name;  // tokenizer_class: "RobertaTokenizer"; "" where it says none
  std::optional<bool> add_prefix_space;
  // Contents; "" where it names none.
  std::string bos, eos, unk, cls, sep, pad, mask;
  std::string pattern;  // pat_str
};
TokenizerClass read_tokenizer_class(std::string_view tokenizer_config_json);
// A vocab.json and a merges.txt as the class cuts texts; without one as GPT-2. DataError for a class that is
// not known: its ids would be silently wrong. Without a class <|endoftext|> is special where the vocabulary
// has it.
TokenizerSpec parse_vocab_merges(std::string_view vocab_json, std::string_view merges_txt,
                                 const TokenizerClass& how = {});
// Adds bos, eos, pad, added tokens and chat template of tokenizer_config.json / special_tokens_map.json
// texts.
void apply_tokenizer_config(std::string_view json, TokenizerSpec& spec);

// Whether a file is of the form that parse_tiktoken reads: Llama-3's tokenizer.model is, which by its name is
// SentencePiece's.
bool holds_ranks(std::string_view text);
// A .tiktoken file: lines of base64 bytes and a rank. `pattern` cuts texts, a regular expression of tiktoken;
// where it is empty `file_name` must say which one does, and which special tokens there are:
// cl100k_base.tiktoken. Else DataError.
TokenizerSpec parse_tiktoken(std::string_view text, std::string_view file_name, std::string_view pattern);
// Mistral's tekken.json.
TokenizerSpec parse_tekken(std::string_view json);

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
