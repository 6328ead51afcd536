// Pre-tokenizers from their JSON.
#include "token/pre_tokenizers/pre_tokenizer.h"
#include "token/pre_tokenizers/rewrites.h"
#include "token/pre_tokenizers/splits.h"

namespace stoa::token {
namespace {

constexpr int kDeepestCuts = 16;  // sequences within sequences

std::unique_ptr<const PreTokenizer> read_one_pre_tokenizer(json::object o, const Tables& tables, int depth) {
  using Characters = SplitAtCharacters;
  const std::string type = type_of(o, "pre_tokenizer");
  const std::string where = "pre_tokenizer " + type;
  if (type == "Sequence") {
    require<DataError>(depth < kDeepestCuts, "pre_tokenizer: sequences are nested {} deep", kDeepestCuts);
    only_keys(o, {"type", "pretokenizers"}, where);
    std::vector<std::unique_ptr<const PreTokenizer>> parts;
    for (const json::element e : array_of(required(o, "pretokenizers", where), "pre_tokenizer.pretokenizers"))
      parts.push_back(read_one_pre_tokenizer(object_of(e, "pre_tokenizer.pretokenizers"), tables, depth + 1));
    return std::make_unique<PreTokenizerSequence>(std::move(parts));
  }
  if (type == "ByteLevel") {
    only_keys(o, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, where);
    return std::make_unique<ByteLevel>(flag(o, "add_prefix_space", true, where),
                                       flag(o, "use_regex", true, where));
  }
  if (type == "Split") {
    only_keys(o, {"type", "pattern", "behavior", "invert"}, where);
    return std::make_unique<SplitAtPattern>(
        TextPattern::read(object_of(required(o, "pattern", where), where + ".pattern"), where + ".pattern"),
        read_behavior(o, std::nullopt, where), flag(o, "invert", false, where));
  }
  if (type == "Digits") {
    only_keys(o, {"type", "individual_digits"}, where);
    const bool single = flag(o, "individual_digits", false, where);
    return std::make_unique<Characters>(
        Characters::Kind::kNumeric, single ? SplitBehavior::kIsolated : SplitBehavior::kContiguous, tables);
  }
  if (type == "Punctuation") {
    only_keys(o, {"type", "behavior"}, where);
    return std::make_unique<Characters>(Characters::Kind::kPunctuation,
                                        read_behavior(o, SplitBehavior::kIsolated, where), tables);
  }
  if (type == "CharDelimiterSplit") {
    only_keys(o, {"type", "delimiter"}, where);
    require<DataError>(member(o, "delimiter").has_value(), "{} has no delimiter", where);
    return std::make_unique<Characters>(Characters::Kind::kDelimiter, SplitBehavior::kRemoved, tables,
                                        character_member(o, "delimiter", U' ', where));
  }
  if (type == "Metaspace") {
    only_keys(o, {"type", "replacement", "str_rep", "add_prefix_space", "prepend_scheme", "split"}, where);
    return std::make_unique<Metaspace>(character_member(o, "replacement", U'\u2581', where),
                                       read_prepend_scheme(o, where), flag(o, "split", true, where));
  }
  if (type == "FixedLength") {
    only_keys(o, {"type", "length"}, where);
    const std::uint64_t length = count_member(o, "length", 5, 1u << 30, where);
    require<DataError>(length > 0, "{}.length must be at least 1", where);
    return std::make_unique<SplitLengths>(length);
  }
  if (type == "WhitespaceSplit" || type == "Whitespace" || type == "UnicodeScripts" ||
      type == "BertPreTokenizer") {
    only_keys(o, {"type"}, where);
    if (type == "Whitespace") return std::make_unique<SplitWords>(tables);
    if (type == "UnicodeScripts") return std::make_unique<SplitScripts>(tables);
    auto blanks = std::make_unique<Characters>(Characters::Kind::kSpace, SplitBehavior::kRemoved, tables);
    if (type == "WhitespaceSplit") return blanks;
    std::vector<std::unique_ptr<const PreTokenizer>> parts;
    parts.push_back(std::move(blanks));
    parts.push_back(
        std::make_unique<Characters>(Characters::Kind::kPunctuation, SplitBehavior::kIsolated, tables));
    return std::make_unique<PreTokenizerSequence>(std::move(parts));
  }
  fail<DataError>(
      "pre_tokenizer {} is not one of BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, "
      "Metaspace, "
      "Punctuation, Sequence, Split, UnicodeScripts, Whitespace, WhitespaceSplit",
      type);
}

}  // namespace

std::unique_ptr<const PreTokenizer> read_pre_tokenizer(json::object o, const Tables& tables) {
  return read_one_pre_tokenizer(o, tables, 0);
}

}  // namespace stoa::token
