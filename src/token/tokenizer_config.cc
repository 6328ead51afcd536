// Reads tokenizer_config.json, special_tokens_map.json and added_tokens.json.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {
namespace {

// Not simdjson: transformers writes numbers beyond 64 bits ("model_max_length":
// 1000000000000000019884624838656).
using Config = nlohmann::json;

Config parse_config(std::string_view text) {
  Config root = Config::parse(text, nullptr, false);
  require<DataError>(!root.is_discarded(), "tokenizer_config.json is not valid JSON");
  require<DataError>(root.is_object(), "tokenizer_config.json must be an object");
  return root;
}

// A member, or nothing when it is absent or null.
const Config* find_in(const Config& o, const char* key) {
  const auto e = o.find(key);
  return e == o.end() || e->is_null() ? nullptr : &*e;
}

std::string string_of(const Config& e, std::string_view where) {
  require<DataError>(e.is_string(), "{} must be a string", where);
  return e.get<std::string>();
}

bool flag_of(const Config& o, const char* key, bool otherwise) {
  const Config* e = find_in(o, key);
  require<DataError>(e == nullptr || e->is_boolean(), "{} must be true or false", key);
  return e == nullptr ? otherwise : e->get<bool>();
}

// A token is a string or an object with a "content".
std::string content_in(const Config& o, const char* key) {
  const Config* e = find_in(o, key);
  if (e == nullptr) return {};
  if (!e->is_object()) return string_of(*e, key);
  const Config* content = find_in(*e, "content");
  require<DataError>(content != nullptr, "{} has no content", key);
  return string_of(*content, key);
}

AddedToken added_token_of(const Config& o) {
  require<DataError>(o.is_object(), "added_tokens_decoder: a token must be an object");
  static constexpr std::string_view kKnown[] = {"id",     "content",    "single_word", "lstrip",
                                                "rstrip", "normalized", "special",     "__type"};
  for (const auto& [key, value] : o.items())
    require<DataError>(std::find(std::begin(kKnown), std::end(kKnown), key) != std::end(kKnown),
                       "added_tokens_decoder has '{}', which Stoa does not support", key);
  AddedToken t;
  const Config* content = find_in(o, "content");
  require<DataError>(content != nullptr, "an added token has no content");
  t.content = string_of(*content, "added_tokens_decoder.content");
  require<DataError>(!t.content.empty(), "an added token is empty");
  t.special = flag_of(o, "special", false);
  t.single_word = flag_of(o, "single_word", false);
  t.lstrip = flag_of(o, "lstrip", false);
  t.rstrip = flag_of(o, "rstrip", false);
  t.normalized = flag_of(o, "normalized", !t.special);
  return t;
}

// The members of both files that name special tokens.
constexpr const char* kRoles[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                  "pad_token", "cls_token", "mask_token"};

// The special tokens that a file names, those without a role too; their ids are elsewhere.
std::vector<AddedToken> named_special_tokens(const Config& root) {
  std::vector<AddedToken> tokens;
  const auto add = [&](const Config& e, const char* key) {
    const Config* content = e.is_object() ? find_in(e, "content") : &e;
    if (content == nullptr || string_of(*content, key).empty()) return;
    AddedToken t = e.is_object() ? added_token_of(e) : AddedToken{.content = string_of(e, key)};
    t.special = true;
    tokens.push_back(std::move(t));
  };
  for (const char* key : kRoles)
    if (const Config* e = find_in(root, key)) add(*e, key);
  if (const Config* more = find_in(root, "additional_special_tokens"); more != nullptr && more->is_array())
    for (const Config& e : *more) add(e, "additional_special_tokens");
  return tokens;
}

bool has_content(const std::vector<AddedToken>& tokens, std::string_view content) {
  return std::any_of(tokens.begin(), tokens.end(), [&](const AddedToken& t) { return t.content == content; });
}

void apply_added_tokens(const Config& table, TokenizerSpec& spec) {
  require<DataError>(table.is_object(), "added_tokens_decoder must be an object");
  const std::size_t entries = spec.vocabulary.size() + spec.added.size() + table.size();
  std::vector<AddedToken> tokens;
  for (const auto& [key, value] : table.items()) {
    AddedToken t = added_token_of(value);
    std::uint64_t id = key.empty() ? ~std::uint64_t{0} : 0;
    for (const char c : key) {
      require<DataError>(c >= '0' && c <= '9' && id < 100'000'000, "added_tokens_decoder: '{}' is not an id",
                         key);
      id = id * 10 + static_cast<std::uint64_t>(c - '0');
    }
    require<DataError>(id < 4 * entries + 65536,
                       "added_tokens_decoder: token id {} is far beyond the {} entries", id, entries);
    t.id = static_cast<TokenId>(id);
    tokens.push_back(std::move(t));
  }
  std::sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (AddedToken& t : tokens) {
    const auto known = std::find_if(spec.added.begin(), spec.added.end(),
                                    [&](const auto& a) { return a.content == t.content; });
    if (known == spec.added.end()) {
      spec.added.push_back(std::move(t));
      continue;
    }
    require<DataError>(known->id == t.id, "tokenizer_config.json gives '{}' id {}, the tokenizer has {}",
                       t.content, t.id, known->id);
    *known = std::move(t);
  }
}

void apply_chat_template(const Config& given, TokenizerSpec& spec) {
  spec.chat_template.clear();
  spec.more_templates.clear();
  if (!given.is_array()) {
    spec.chat_template = string_of(given, "chat_template");
    return;
  }
  for (const Config& item : given) {
    require<DataError>(item.is_object(), "chat_template must be an object");
    const Config *body = find_in(item, "template"), *label = find_in(item, "name");
    require<DataError>(body != nullptr && label != nullptr, "a chat_template needs a name and a template");
    const std::string name = string_of(*label, "chat_template.name"),
                      text = string_of(*body, "chat_template.template");
    if (name == "default")
      spec.chat_template = text;
    else
      spec.more_templates[name] = text;
  }
}

}  // namespace

void apply_tokenizer_config(std::string_view text, TokenizerSpec& spec) {
  const Config root = parse_config(text);
  if (const Config* added = find_in(root, "added_tokens_decoder")) apply_added_tokens(*added, spec);
  const std::pair<const char*, std::string*> roles[] = {
      {"bos_token", &spec.bos}, {"eos_token", &spec.eos}, {"pad_token", &spec.pad},  {"unk_token", &spec.unk},
      {"cls_token", &spec.cls}, {"sep_token", &spec.sep}, {"mask_token", &spec.mask}};
  for (const auto& [key, target] : roles)
    if (find_in(root, key) != nullptr) *target = content_in(root, key);
  if (spec.form == SymbolForm::kWordPiece) {
    WordPieceOptions& w = spec.wordpiece;
    w.lowercase = flag_of(root, "do_lower_case", w.lowercase);
    w.handle_chinese_chars = flag_of(root, "tokenize_chinese_chars", w.handle_chinese_chars);
    if (find_in(root, "strip_accents") != nullptr) w.strip_accents = flag_of(root, "strip_accents", true);
  }
  if (const Config* e = find_in(root, "extra_ids")) {
    require<DataError>(e->is_number_unsigned() && e->get<std::uint64_t>() <= 100'000,
                       "extra_ids must be a whole number from 0 to 100000");
    spec.sentinels = e->get<std::int64_t>();
  }
  if (find_in(root, "add_bos_token") != nullptr) spec.add_bos = flag_of(root, "add_bos_token", false);
  if (const Config* e = find_in(root, "chat_template")) apply_chat_template(*e, spec);
  // transformers writes 1e30 for "no limit", which is no integer here.
  if (const Config* e = find_in(root, "model_max_length"); e != nullptr && e->is_number_unsigned()) {
    const auto length = e->get<std::uint64_t>();
    if (length > 0 && length <= 0x7FFFFFFFFFFFFFFF) spec.model_max_length = static_cast<std::int64_t>(length);
  }
  if (const Config* e = find_in(root, "pat_str")) spec.pattern = string_of(*e, "pat_str");
}

void apply_legacy_tokens(const LegacyTokenFiles& files, TokenizerSpec& spec) {
  std::vector<AddedToken> named;
  bool has_table = false;
  for (const std::string& text : {files.tokenizer_config, files.special_tokens_map}) {
    if (text.empty()) continue;
    const Config root = parse_config(text);
    has_table |= find_in(root, "added_tokens_decoder") != nullptr;
    for (AddedToken& t : named_special_tokens(root))
      if (!has_content(named, t.content)) named.push_back(std::move(t));
  }
  const auto token_named = [&](const std::string& content) {
    const auto found =
        std::find_if(named.begin(), named.end(), [&](const AddedToken& t) { return t.content == content; });
    return found == named.end() ? AddedToken{.content = content, .special = false, .normalized = true}
                                : *found;
  };
  // The later table has the tokens of added_tokens.json, too, and says more of them.
  if (!files.added_tokens.empty() && !has_table) {
    const Config root = Config::parse(files.added_tokens, nullptr, false);
    require<DataError>(root.is_object(), "added_tokens.json is not a JSON object of tokens and ids");
    const std::size_t limit = 4 * (spec.vocabulary.size() + root.size()) + 65536;
    for (const auto& [content, id] : root.items()) {
      require<DataError>(!content.empty() && id.is_number_unsigned() && id.get<std::uint64_t>() < limit,
                         "added_tokens.json gives '{}' the id {}; expected a number below {}", content,
                         id.dump(), limit);
      if (has_content(spec.added, content)) continue;
      AddedToken t = token_named(content);
      t.id = id.get<TokenId>();
      spec.added.push_back(std::move(t));
    }
  }
  for (AddedToken& t : named) {
    const auto found = std::find(spec.vocabulary.begin(), spec.vocabulary.end(), t.content);
    if (found == spec.vocabulary.end() || has_content(spec.added, t.content)) continue;
    t.id = static_cast<TokenId>(found - spec.vocabulary.begin());
    spec.added.push_back(std::move(t));
  }
}

TokenizerClass read_tokenizer_class(std::string_view text) {
  const Config root = parse_config(text);
  TokenizerClass out;
  if (const Config* e = find_in(root, "tokenizer_class")) out.name = string_of(*e, "tokenizer_class");
  if (find_in(root, "add_prefix_space") != nullptr)
    out.add_prefix_space = flag_of(root, "add_prefix_space", false);
  out.bos = content_in(root, "bos_token"), out.eos = content_in(root, "eos_token");
  out.unk = content_in(root, "unk_token"), out.cls = content_in(root, "cls_token");
  out.sep = content_in(root, "sep_token"), out.pad = content_in(root, "pad_token");
  out.mask = content_in(root, "mask_token");
  if (const Config* e = find_in(root, "pat_str")) out.pattern = string_of(*e, "pat_str");
  return out;
}

}  // namespace stoa::token
