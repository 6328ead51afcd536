#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "base/error.h"
#include "token/gguf/gguf_tokenizer.h"
#include "token/gguf/pre_types.h"
#include "token/gguf/token_types.h"

namespace stoa::token {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kBlank = "\xe2\x96\x81";  // U+2581

// Tokens by id with their types.
struct GgufVocabulary {
  std::vector<std::string> tokens;
  std::vector<GgufTokenType> types;

  std::size_t size() const { return tokens.size(); }
  bool is_added(std::size_t id) const {
    return types[id] == GgufTokenType::kControl || types[id] == GgufTokenType::kUser ||
           types[id] == GgufTokenType::kUnknown;
  }
};

GgufVocabulary read_gguf_vocabulary(const gguf::File& file) {
  GgufVocabulary out;
  const auto* tokens = file.array(kGgufTokens, gguf::ValueType::kText);
  require<DataError>(tokens && tokens->size() > 0, "'{}' has no tokenizer ({})", file.path().string(),
                     kGgufTokens);
  const auto* types = file.array(kGgufTypes, gguf::ValueType::kI32);
  require<DataError>(!types || types->size() == tokens->size(), "'{}': {} tokens and {} types",
                     file.path().string(), tokens->size(), types ? types->size() : 0);
  for (std::size_t i = 0; i < tokens->size(); ++i) {
    out.tokens.push_back(*tokens->text_at(i));
    const std::int64_t type = types ? types->integer(i).value_or(0) : 1;
    require<DataError>(type >= 1 && type <= 6, "'{}': token {} is of type {}, expected 1 to 6",
                       file.path().string(), i, type);
    out.types.push_back(static_cast<GgufTokenType>(type));
  }
  return out;
}

Json added_tokens(const GgufVocabulary& vocabulary) {
  Json out = Json::array();
  for (std::size_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.is_added(id) && !vocabulary.tokens[id].empty())
      out.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", vocabulary.types[id] != GgufTokenType::kUser}});
  return out;
}

std::string vocabulary_text(const GgufVocabulary& vocabulary, const gguf::File& file) {
  std::unordered_map<std::string_view, std::size_t> seen;
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const auto [first, fresh] = seen.emplace(vocabulary.tokens[id], id);
    require<DataError>(fresh || vocabulary.types[id] == GgufTokenType::kUnused,
                       "'{}': tokens {} and {} are both '{}'", file.path().string(), first->second, id,
                       vocabulary.tokens[id]);
  }
  // An ordered object looks for the key at every insertion: the text is put together by hand.
  std::string text = "{";
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    if (seen.at(vocabulary.tokens[id]) != id) continue;
    if (text.size() > 1) text += ',';
    text += Json(vocabulary.tokens[id]).dump(-1, ' ', false, Json::error_handler_t::replace);
    text += ':' + std::to_string(id);
  }
  return text + "}";
}

// Everything that surrounds a text.
Json template_processing(const gguf::File& file, const GgufVocabulary& vocabulary, bool bos_by_default) {
  Json single = Json::array(), special = Json::object();
  const auto add = [&](const char* key, const char* which, bool fallback) {
    if (!file.flag(std::string("tokenizer.ggml.add_") + key + "_token").value_or(fallback)) return;
    const auto id = file.integer(std::string("tokenizer.ggml.") + which + "_token_id");
    if (!id || *id < 0 || static_cast<std::size_t>(*id) >= vocabulary.size()) return;
    const std::string& token = vocabulary.tokens[static_cast<std::size_t>(*id)];
    single.push_back({{"SpecialToken", {{"id", token}, {"type_id", 0}}}});
    special[token] = {{"id", token}, {"ids", {*id}}, {"tokens", {token}}};
  };
  add("bos", "bos", bos_by_default);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  add("eos", "eos", false);
  if (special.empty()) return nullptr;
  Json pair = single;
  pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special}};
}

// `vocab` and `merges`: JSON texts.
std::string tokenizer_text(Json parts, Json model, const std::string& vocab, const std::string& merges) {
  parts["model"] = std::move(model);
  std::string text = parts.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize(text.size() - 2);  // of the model and of all
  return text + ",\"vocab\":" + vocab + ",\"merges\":" + merges + "}}";
}

std::string quoted_merge(std::string_view left, std::string_view right) {
  return Json(Json::array({left, right})).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string read_byte_level(const gguf::File& file, const GgufVocabulary& vocabulary) {
  const PreType pre = pre_type(file.text(kGgufPre).value_or("default"));
  const auto* merges = file.array(kGgufMerges, gguf::ValueType::kText);
  require<DataError>(merges != nullptr, "'{}' has no {}", file.path().string(), kGgufMerges);
  std::string list = "[";
  for (std::size_t i = 0; i < merges->size(); ++i) {
    const std::string& merge = *merges->text_at(i);
    const auto space = merge.find(' ', 1);  // a token may begin with one
    require<DataError>(space != merge.npos, "'{}': merge {} is '{}', expected two tokens",
                       file.path().string(), i, merge);
    list += (i ? "," : "") +
            quoted_merge(std::string_view(merge).substr(0, space), std::string_view(merge).substr(space + 1));
  }
  const Json bytes = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
  return tokenizer_text({{"version", "1.0"},
                         {"truncation", nullptr},
                         {"padding", nullptr},
                         {"added_tokens", added_tokens(vocabulary)},
                         {"normalizer", pre.nfc ? Json{{"type", "NFC"}} : Json()},
                         {"pre_tokenizer", pre.pre_tokenizer},
                         {"post_processor", template_processing(file, vocabulary, pre.add_bos)},
                         {"decoder", bytes}},
                        {{"type", "BPE"},
                         {"dropout", nullptr},
                         {"unk_token", nullptr},
                         {"continuing_subword_prefix", nullptr},
                         {"end_of_word_suffix", nullptr},
                         {"fuse_unk", false},
                         {"byte_fallback", false},
                         {"ignore_merges", pre.ignore_merges}},
                        vocabulary_text(vocabulary, file), list + "]");
}

struct ScoredMerge {
  std::size_t id, left, right;  // of tokens
  float score;                  // of the result
};

// SentencePiece joins the neighbours whose join has the highest score: as merges, every way to cut a token
// into two tokens, by falling score of the whole.
std::vector<ScoredMerge> merges_by_score(const gguf::File& file, const GgufVocabulary& vocabulary) {
  const auto* scores = file.array(kGgufScores, gguf::ValueType::kF32);
  require<DataError>(scores && scores->size() == vocabulary.size(), "'{}' has no score for every token",
                     file.path().string());
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < vocabulary.size(); ++id)
    if (vocabulary.types[id] == GgufTokenType::kNormal) ids.emplace(vocabulary.tokens[id], id);
  std::vector<ScoredMerge> out;
  for (const auto& [token, id] : ids)
    for (std::size_t cut = 1; cut < token.size(); ++cut) {
      if ((static_cast<unsigned char>(token[cut]) & 0xc0u) == 0x80) continue;  // within a character
      const auto left = ids.find(token.substr(0, cut)), right = ids.find(token.substr(cut));
      if (left == ids.end() || right == ids.end()) continue;
      out.push_back({id, left->second, right->second, static_cast<float>(scores->real(id).value_or(0))});
    }
  std::sort(out.begin(), out.end(), [](const ScoredMerge& a, const ScoredMerge& b) {
    if (a.score != b.score) return a.score > b.score;
    return std::pair(a.id, a.left) < std::pair(b.id, b.left);
  });
  return out;
}

std::string read_scored(const gguf::File& file, const GgufVocabulary& vocabulary) {
  std::string list = "[";
  for (const ScoredMerge& merge : merges_by_score(file, vocabulary))
    list += (list.size() > 1 ? "," : "") +
            quoted_merge(vocabulary.tokens[merge.left], vocabulary.tokens[merge.right]);
  const bool prefix = file.flag("tokenizer.ggml.add_space_prefix").value_or(true);
  const Json blanks = {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", kBlank}};
  Json decoders = Json::array({{{"type", "Replace"}, {"pattern", {{"String", kBlank}}}, {"content", " "}},
                               {{"type", "ByteFallback"}},
                               {{"type", "Fuse"}}});
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  const auto unknown = std::find(vocabulary.types.begin(), vocabulary.types.end(), GgufTokenType::kUnknown);
  const Json unk =
      unknown == vocabulary.types.end()
          ? Json()
          : Json(vocabulary.tokens[static_cast<std::size_t>(unknown - vocabulary.types.begin())]);
  return tokenizer_text(
      {{"version", "1.0"},
       {"truncation", nullptr},
       {"padding", nullptr},
       {"added_tokens", added_tokens(vocabulary)},
       {"normalizer",
        prefix ? Json{{"type", "Sequence"},
                      {"normalizers", Json::array({{{"type", "Prepend"}, {"prepend", kBlank}}, blanks})}}
               : blanks},
       {"pre_tokenizer", nullptr},
       {"post_processor", template_processing(file, vocabulary, true)},
       {"decoder", {{"type", "Sequence"}, {"decoders", decoders}}}},
      {{"type", "BPE"},
       {"dropout", nullptr},
       {"unk_token", unk},
       {"continuing_subword_prefix", nullptr},
       {"end_of_word_suffix", nullptr},
       {"fuse_unk", true},
       {"byte_fallback", true},
       {"ignore_merges", false}},
      vocabulary_text(vocabulary, file), list + "]");
}

}  // namespace

TokenizerSpec parse_gguf(const gguf::File& file) {
  const std::string model = file.text(kGgufModel).value_or("");
  const GgufVocabulary vocabulary = read_gguf_vocabulary(file);
  require<DataError>(model == "gpt2" || model == "llama",
                     "'{}': {} is '{}'; read are gpt2 (byte-level BPE) and llama (SentencePiece's BPE)",
                     file.path().string(), kGgufModel, model);
  TokenizerSpec spec = parse_tokenizer_json(model == "gpt2" ? read_byte_level(file, vocabulary)
                                                            : read_scored(file, vocabulary));
  const auto token = [&](const char* which) -> std::string {
    const auto id = file.integer(std::string("tokenizer.ggml.") + which + "_token_id");
    if (!id || *id < 0 || static_cast<std::size_t>(*id) >= vocabulary.size()) return "";
    return vocabulary.tokens[static_cast<std::size_t>(*id)];
  };
  spec.bos = token("bos");
  spec.eos = token("eos");
  spec.pad = token("padding");
  if (spec.unk.empty()) spec.unk = token("unknown");
  spec.chat_template = file.text(kGgufTemplate).value_or("");
  for (const auto& [key, value] : file.keys())
    if (key.starts_with(kGgufTemplateOf) && value.text_at() != nullptr)
      spec.more_templates[key.substr(kGgufTemplateOf.size())] = *value.text_at();
  return spec;
}

}  // namespace stoa::token
