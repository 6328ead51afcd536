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
using gguf::Keys;
using gguf::Value;

// A tokenizer.json without its vocabulary, which `spec` has too: in an object of this kind each key is looked
// for among all before it.
Json tokenizer_file(const TokenizerSpec& spec) {
  require<DataError>(
      spec.form == SymbolForm::kByteLevel || spec.form == SymbolForm::kSentencePiece ||
          (spec.form == SymbolForm::kComponents && spec.original.name == "tokenizer.json"),
      "a tokenizer of this kind is not written into GGUF files; written are byte-level BPE and "
      "SentencePiece's BPE of a tokenizer.json");
  return Json::parse(spec.original.name == "tokenizer.json" ? spec.original.text : tokenizer_json(spec),
                     [](int depth, Json::parse_event_t event, const Json& read) {
                       return event != Json::parse_event_t::key || depth != 2 || read != "vocab";
                     });
}

bool is_type(const Json& part, std::string_view type) {
  return part.is_object() && part.value("type", "") == type;
}

// What changes ids in a pre-tokenizer, in one form; a sequence of one is its part.
Json plain_form(const Json& part) {
  if (is_type(part, "Sequence")) {
    Json parts = Json::array();
    for (const Json& each : part.at("pretokenizers")) parts.push_back(plain_form(each));
    return parts.size() == 1 ? parts[0] : Json{{"type", "Sequence"}, {"pretokenizers", parts}};
  }
  if (is_type(part, "ByteLevel")) {
    require<DataError>(
        !part.value("add_prefix_space", true),
        "a byte-level tokenizer that puts a space in front of texts cannot be said in a GGUF file");
    return {{"type", "ByteLevel"}, {"use_regex", part.value("use_regex", true)}};
  }
  Json out = part;
  if (out.is_object() && out.value("invert", true) == false) out.erase("invert");
  return out;
}

bool is_nfc(const Json& normalizer) { return is_type(normalizer, "NFC"); }

std::string pre_type_of(const Json& file, bool ignore_merges) {
  const Json normalizer = file.value("normalizer", Json());
  require<DataError>(normalizer.is_null() || is_nfc(normalizer),
                     "a byte-level tokenizer with a normalizer other than NFC cannot be said in a GGUF file");
  const auto name = name_of_pre_type(plain_form(file.value("pre_tokenizer", Json())), is_nfc(normalizer),
                                     ignore_merges, plain_form);
  require<DataError>(!name.empty(), "llama.cpp has no name for a tokenizer that cuts texts like this one: {}",
                     file.value("pre_tokenizer", Json()).dump().substr(0, 300));
  return std::string(name);
}

// Whether a blank comes in front of every text.
bool adds_blank(const Json& file) {
  const Json normalizer = file.value("normalizer", Json()), cutter = file.value("pre_tokenizer", Json());
  if (is_type(cutter, "Metaspace")) return cutter.value("prepend_scheme", "always") != "never";
  const Json parts =
      is_type(normalizer, "Sequence") ? normalizer.at("normalizers") : Json::array({normalizer});
  return std::any_of(parts.begin(), parts.end(), [](const Json& part) { return is_type(part, "Prepend"); });
}

struct WrittenTokens {
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
};

bool is_byte_token(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with('>');
}

WrittenTokens tokens_of(const TokenizerSpec& spec, std::int64_t vocabulary, bool bytes) {
  WrittenTokens out;
  const auto set = [&](std::size_t id, std::string token, GgufTokenType type) {
    require<DataError>(id < out.tokens.size(), "the tokenizer has id {}, the model only {}", id, vocabulary);
    out.tokens[id] = std::move(token);
    out.types[id] = static_cast<std::int32_t>(type);
  };
  out.tokens.resize(static_cast<std::size_t>(vocabulary));
  out.types.resize(out.tokens.size());
  for (std::size_t id = 0; id < out.tokens.size(); ++id)
    set(id, "[PAD" + std::to_string(id) + "]", GgufTokenType::kUnused);
  for (std::size_t id = 0; id < spec.vocabulary.size(); ++id)
    if (!spec.vocabulary[id].empty())
      set(id, spec.vocabulary[id],
          bytes && is_byte_token(spec.vocabulary[id]) ? GgufTokenType::kByte : GgufTokenType::kNormal);
  for (const AddedToken& added : spec.added)
    set(static_cast<std::size_t>(added.id), added.content,
        bytes && added.content == spec.unk ? GgufTokenType::kUnknown
        : added.special                    ? GgufTokenType::kControl
                                           : GgufTokenType::kUser);
  return out;
}

void add_names(const Tokenizer& tokenizer, Keys& keys) {
  const TokenizerSpec& spec = tokenizer.spec();
  const auto add = [&](const char* which, std::optional<TokenId> id) {
    if (id)
      keys.emplace_back(std::string("tokenizer.ggml.") + which + "_token_id",
                        Value::u32(static_cast<std::uint32_t>(*id)));
  };
  add("bos", tokenizer.bos_id());
  add("eos", tokenizer.eos_id());
  add("unknown", tokenizer.unk_id());
  add("padding", tokenizer.pad_id());
  const auto has = [](const std::vector<TokenId>& ids, std::optional<TokenId> id) {
    return id && std::find(ids.begin(), ids.end(), *id) != ids.end();
  };
  keys.emplace_back("tokenizer.ggml.add_bos_token", Value::boolean(has(spec.before, tokenizer.bos_id())));
  keys.emplace_back("tokenizer.ggml.add_eos_token", Value::boolean(has(spec.after, tokenizer.eos_id())));
  if (!spec.chat_template.empty())
    keys.emplace_back(std::string(kGgufTemplate), Value::text(spec.chat_template));
  if (spec.more_templates.empty()) return;
  std::vector<std::string> names;
  for (const auto& [name, text] : spec.more_templates) {
    names.push_back(name);
    keys.emplace_back(std::string(kGgufTemplateOf) + name, Value::text(text));
  }
  keys.emplace_back(std::string(kGgufTemplates), Value::texts(std::move(names)));
}

std::vector<std::pair<std::string, std::string>> merges_of(const Json& file) {
  std::vector<std::pair<std::string, std::string>> out;
  for (const Json& merge : file.at("model").at("merges")) {
    if (merge.is_array()) {
      out.emplace_back(merge.at(0).get<std::string>(), merge.at(1).get<std::string>());
      continue;
    }
    const auto text = merge.get<std::string>();
    const auto space = text.find(' ', 1);
    out.emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return out;
}

}  // namespace

Keys gguf_keys(const Tokenizer& tokenizer, std::int64_t vocabulary) {
  const TokenizerSpec& spec = tokenizer.spec();
  const Json file = tokenizer_file(spec);
  const Json& model = file.at("model");
  require<DataError>(is_type(model, "BPE") || !model.contains("type"),
                     "a tokenizer of type {} is not written into GGUF files; written are byte-level BPE and "
                     "SentencePiece's BPE",
                     model.value("type", "?"));
  const bool scored = model.value("byte_fallback", false);
  WrittenTokens tokens = tokens_of(spec, vocabulary, scored);
  const auto merges = merges_of(file);
  Keys keys;
  keys.emplace_back(std::string(kGgufModel), Value::text(scored ? "llama" : "gpt2"));
  keys.emplace_back(std::string(kGgufPre),
                    Value::text(scored ? "default" : pre_type_of(file, model.value("ignore_merges", false))));
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < tokens.tokens.size(); ++id) ids.emplace(tokens.tokens[id], id);
  if (scored) {
    // The earlier a merge, the higher the score of what it makes.
    std::vector<float> scores(tokens.tokens.size(), 0.0f);
    for (std::size_t rank = merges.size(); rank-- > 0;)
      if (const auto made = ids.find(merges[rank].first + merges[rank].second); made != ids.end())
        scores[made->second] = -static_cast<float>(rank + 1);
    keys.emplace_back(std::string(kGgufTokens), Value::texts(std::move(tokens.tokens)));
    keys.emplace_back(std::string(kGgufScores), Value::f32s(scores));
    keys.emplace_back(std::string(kGgufTypes), Value::i32s(tokens.types));
    keys.emplace_back("tokenizer.ggml.add_space_prefix", Value::boolean(adds_blank(file)));
  } else {
    std::vector<std::string> texts;
    for (const auto& [left, right] : merges) texts.push_back(left + " " + right);
    keys.emplace_back(std::string(kGgufTokens), Value::texts(std::move(tokens.tokens)));
    keys.emplace_back(std::string(kGgufTypes), Value::i32s(tokens.types));
    keys.emplace_back(std::string(kGgufMerges), Value::texts(std::move(texts)));
  }
  add_names(tokenizer, keys);
  return keys;
}

}  // namespace stoa::token
