// Reads vocabularies of tiktoken: tokens are bytes with a rank, and those merge whose result has the lowest.
// Files: .tiktoken and Mistral's tekken.json.
#include <algorithm>
#include <charconv>

#include "token/byte_alphabet.h"
#include "token/json_reader.h"
#include "token/normalizers/precompiled.h"
#include "token/pre_tokenizers/splits.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {
namespace {

constexpr std::size_t kLongestToken = 1024;  // bytes; pairs are tried at every place of a token

constexpr std::string_view kO200kPattern =
    R"re([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)re";
constexpr std::string_view kEndOfText = "<|endoftext|>", kEndOfPrompt = "<|endofprompt|>";

// What the name of a .tiktoken file stands for (openai_public.py of tiktoken 0.14, tokenization_qwen.py).
struct KnownRanks {
  std::string_view file;
  SplitPattern split;  // kOther: o200k
  bool nfc;
  std::vector<std::pair<std::string, TokenId>> special;
};

std::vector<KnownRanks> known_ranks() {
  std::vector<KnownRanks> out{
      {"r50k_base.tiktoken", SplitPattern::kGpt2, false, {{std::string(kEndOfText), 50256}}},
      {"p50k_base.tiktoken", SplitPattern::kGpt2, false, {{std::string(kEndOfText), 50256}}},
      {"cl100k_base.tiktoken",
       SplitPattern::kCl100k,
       false,
       {{std::string(kEndOfText), 100257},
        {"<|fim_prefix|>", 100258},
        {"<|fim_middle|>", 100259},
        {"<|fim_suffix|>", 100260},
        {std::string(kEndOfPrompt), 100276}}},
      {"o200k_base.tiktoken",
       SplitPattern::kOther,
       false,
       {{std::string(kEndOfText), 199999}, {std::string(kEndOfPrompt), 200018}}},
      {"qwen.tiktoken",
       SplitPattern::kQwen2,
       true,
       {{std::string(kEndOfText), 151643}, {"<|im_start|>", 151644}, {"<|im_end|>", 151645}}}};
  for (int i = 0; i < 205; ++i) out.back().special.emplace_back(fmt::format("<|extra_{}|>", i), 151646 + i);
  return out;
}

// One token after another, by rank.
class RankedTokens {
 public:
  explicit RankedTokens(TokenizerSpec& spec) : spec_(spec) {}

  void add(std::string bytes, std::uint64_t id, std::size_t entries, std::string_view where) {
    require<DataError>(id < 4 * entries + 65536, "{}: rank {} is far beyond the {} tokens", where, id,
                       entries);
    if (bytes.empty()) return;  // OpenAI's Whisper has one: no text ever becomes it
    require<DataError>(bytes.size() <= kLongestToken, "{}: a token of {} bytes, expected 1 to {}", where,
                       bytes.size(), kLongestToken);
    const auto index = static_cast<std::size_t>(id);
    if (index >= spec_.vocabulary.size()) spec_.vocabulary.resize(index + 1), bytes_.resize(index + 1);
    require<DataError>(spec_.vocabulary[index].empty(), "{}: rank {} appears twice", where, id);
    spec_.vocabulary[index] = alphabet_.to_symbols(bytes);
    bytes_[index] = std::move(bytes);
  }

  // Every pair of tokens that makes another, by its id.
  void make_merges() {
    std::unordered_map<std::string_view, TokenId> ids;
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      if (bytes_[i].empty()) continue;
      const bool fresh = ids.emplace(bytes_[i], static_cast<TokenId>(i)).second;
      require<DataError>(fresh, "token '{}' appears twice", spec_.vocabulary[i]);
    }
    const auto find = [&](std::string_view token) {
      const auto found = ids.find(token);
      return found == ids.end() ? -1 : found->second;
    };
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      const std::string_view whole = bytes_[i];
      for (std::size_t cut = 1; cut < whole.size(); ++cut) {
        const TokenId left = find(whole.substr(0, cut));
        const TokenId right = left < 0 ? -1 : find(whole.substr(cut));
        if (right >= 0) spec_.merges.push_back({left, right, static_cast<TokenId>(i)});
      }
    }
  }

 private:
  TokenizerSpec& spec_;
  const ByteAlphabet alphabet_;
  std::vector<std::string> bytes_;  // by id
};

TokenizerSpec ranked_spec() {
  TokenizerSpec spec;
  spec.rank_by_result = true;
  spec.ignore_merges = true;  // a word that is a token is taken whole
  return spec;
}

void cut_by_pattern(std::string_view pattern, TokenizerSpec& spec) {
  // BLOOM's leaves text out here, which tokenizers keeps.
  if (const auto known = split_pattern_of_regex(pattern); known && *known != SplitPattern::kBloom) {
    spec.split = *known;
    return;
  }
  spec.split = SplitPattern::kOther;
  spec.cutter = std::make_shared<const SplitAtPattern>(TextPattern(Regex(pattern, Regex::Dialect::kTiktoken)),
                                                       SplitBehavior::kRemoved, true);
  spec.cutter_identity = pattern;
}

}  // namespace

bool holds_ranks(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const auto space = line.find(' ');
  const auto all_of = [](std::string_view part, std::string_view characters) {
    return !part.empty() && part.find_first_not_of(characters) == part.npos;
  };
  return space != line.npos &&
         all_of(line.substr(0, space), "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") &&
         all_of(line.substr(space + 1), "0123456789\r");
}

TokenizerSpec parse_tiktoken(std::string_view text, std::string_view file_name, std::string_view pattern) {
  TokenizerSpec spec = ranked_spec();
  const std::vector<KnownRanks> all = known_ranks();
  const auto known =
      std::find_if(all.begin(), all.end(), [&](const KnownRanks& k) { return k.file == file_name; });
  require<DataError>(
      known != all.end() || !pattern.empty(),
      "a file of ranks does not define the pre-tokenization, and '{}' is none of cl100k_base.tiktoken, "
      "o200k_base.tiktoken, p50k_base.tiktoken, r50k_base.tiktoken, qwen.tiktoken: give the pattern as "
      "\"pat_str\" in a tokenizer_config.json in the same directory",
      file_name);
  RankedTokens tokens(spec);
  const auto entries = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1;
  std::size_t number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    ++number;
    while (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const std::string where = fmt::format("{}, line {}", file_name, number);
    const auto space = line.find(' ');
    std::uint64_t rank = 0;
    const char* stop = line.data() + line.size();
    const auto [parsed, error] =
        std::from_chars(line.data() + std::min(space, line.size() - 1) + 1, stop, rank);
    require<DataError>(space != line.npos && error == std::errc() && parsed == stop,
                       "{}: expected base64 bytes, a space and a rank", where);
    tokens.add(decode_base64(line.substr(0, space), where), rank, entries, where);
  }
  require<DataError>(!spec.vocabulary.empty(), "{} holds no tokens", file_name);
  tokens.make_merges();
  if (!pattern.empty()) {
    cut_by_pattern(pattern, spec);
  } else if (known->split == SplitPattern::kOther) {
    cut_by_pattern(kO200kPattern, spec);
  } else {
    spec.split = known->split;
  }
  if (known != all.end()) {
    spec.nfc = known->nfc;
    for (const auto& [content, id] : known->special) spec.added.push_back({.id = id, .content = content});
    spec.eos = kEndOfText;
  }
  spec.original = {std::string(file_name), std::string(text)};
  return spec;
}

TokenizerSpec parse_tekken(std::string_view text) {
  json::parser parser;
  const json::object root = object_of(parse_json(parser, text, "tekken.json"), "tekken.json");
  // What concerns images, sound and chats has nothing to do with texts.
  only_keys(root,
            {"config", "vocab", "special_tokens", "version", "type", "image", "audio", "multimodal",
             "model_settings_builder"},
            "tekken.json");
  const json::object config = object_of(required(root, "config", "tekken.json"), "tekken.json config");
  const json::array vocab = array_of(required(root, "vocab", "tekken.json"), "tekken.json vocab");
  constexpr std::uint64_t kMost = 100'000'000;
  const std::uint64_t special =
      count_member(config, "default_num_special_tokens", std::nullopt, 1'000'000, "config");
  const std::uint64_t size = count_member(config, "default_vocab_size", std::nullopt, kMost, "config");
  require<DataError>(size > special && size <= special + vocab.size(),
                     "config.default_vocab_size is {}, but there are {} special tokens and {} others", size,
                     special, vocab.size());
  TokenizerSpec spec = ranked_spec();
  RankedTokens tokens(spec);
  for (const json::element e : vocab) {
    const json::object o = object_of(e, "tekken.json vocab");
    const std::uint64_t rank = count_member(o, "rank", std::nullopt, kMost, "vocab");
    if (rank >= size - special) continue;  // the file has more than are used
    tokens.add(decode_base64(text_member(o, "token_bytes", "vocab"), "vocab.token_bytes"), special + rank,
               static_cast<std::size_t>(size), "tekken.json");
  }
  tokens.make_merges();
  static constexpr std::string_view kUsual[] = {"<unk>",
                                                "<s>",
                                                "</s>",
                                                "[INST]",
                                                "[/INST]",
                                                "[AVAILABLE_TOOLS]",
                                                "[/AVAILABLE_TOOLS]",
                                                "[TOOL_RESULTS]",
                                                "[/TOOL_RESULTS]",
                                                "[TOOL_CALLS]",
                                                "[IMG]",
                                                "<pad>",
                                                "[IMG_BREAK]",
                                                "[IMG_END]",
                                                "[PREFIX]",
                                                "[MIDDLE]",
                                                "[SUFFIX]",
                                                "[SYSTEM_PROMPT]",
                                                "[/SYSTEM_PROMPT]",
                                                "[TOOL_CONTENT]"};
  std::vector<std::string> names(static_cast<std::size_t>(special));
  if (const auto given = member(root, "special_tokens")) {
    for (const json::element e : array_of(*given, "special_tokens")) {
      const json::object o = object_of(e, "special_tokens");
      const std::uint64_t rank =
          count_member(o, "rank", std::nullopt, special - (special > 0 ? 1 : 0), "special_tokens");
      require<DataError>(rank < special, "special_tokens: rank {} of {}", rank, special);
      names[static_cast<std::size_t>(rank)] = text_member(o, "token_str", "special_tokens");
    }
  } else {
    for (std::size_t i = 0; i < names.size() && i < std::size(kUsual); ++i) names[i] = kUsual[i];
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (names[i].empty()) names[i] = fmt::format("<SPECIAL_{}>", i);
    spec.added.push_back({.id = static_cast<TokenId>(i), .content = names[i]});
    for (const auto& [usual, role] : {std::pair{"<s>", &spec.bos}, std::pair{"</s>", &spec.eos},
                                      std::pair{"<pad>", &spec.pad}, std::pair{"<unk>", &spec.unk}})
      if (names[i] == usual) *role = usual;
  }
  if (!spec.bos.empty()) {
    const auto bos = std::find(names.begin(), names.end(), spec.bos);
    spec.before = {static_cast<TokenId>(bos - names.begin())};
  }
  cut_by_pattern(text_member(config, "pattern", "config"), spec);
  spec.original = {"tekken.json", std::string(text)};
  return spec;
}

}  // namespace stoa::token
