// Reads tokenizer files. What they ask for and Stoa does not do is an error that names it.
#include <simdjson.h>

#include <algorithm>
#include <initializer_list>
#include <unordered_map>

#include "base/error.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {
namespace {

namespace json = simdjson::dom;

json::element parse(json::parser& parser, std::string_view text, std::string_view what) {
  json::element root;
  const auto error = parser.parse(text.data(), text.size()).get(root);
  require<DataError>(!error, "{} is not valid JSON: {}", what, simdjson::error_message(error));
  return root;
}

json::object object_of(json::element e, std::string_view where) {
  json::object o;
  require<DataError>(!e.get(o), "{} must be an object", where);
  return o;
}

// A member, or nothing when it is absent or null.
std::optional<json::element> member(json::object o, std::string_view key) {
  json::element e;
  if (o.at_key(key).get(e) || e.is_null()) return std::nullopt;
  return e;
}

std::string text_of(json::element e, std::string_view where) {
  std::string_view s;
  require<DataError>(!e.get(s), "{} must be a string", where);
  return std::string(s);
}

bool flag(json::object o, std::string_view key, bool otherwise, std::string_view where) {
  const auto e = member(o, key);
  if (!e) return otherwise;
  bool value = false;
  require<DataError>(!e->get(value), "{}.{} must be true or false", where, key);
  return value;
}

std::string type_of(json::object o, std::string_view where) {
  const auto type = member(o, "type");
  require<DataError>(type.has_value(), "{} has no type", where);
  return text_of(*type, where);
}

void only_keys(json::object o, std::initializer_list<std::string_view> known, std::string_view where) {
  for (const auto field : o) {
    require<DataError>(std::find(known.begin(), known.end(), field.key) != known.end(),
                       "{} has '{}', which Stoa does not support", where, field.key);
  }
}

// Ids index tables, so a wild id must not size one.
TokenId token_id(json::element e, std::size_t entries, std::string_view where) {
  std::uint64_t id = 0;
  require<DataError>(!e.get(id), "{}: a token id must be a whole number from 0", where);
  require<DataError>(id < 4 * entries + 65536, "{}: token id {} is far beyond the {} entries", where, id,
                     entries);
  return static_cast<TokenId>(id);
}

using Lookup = std::unordered_map<std::string_view, TokenId>;

Lookup read_vocabulary(json::object vocab, std::string_view where, TokenizerSpec& spec) {
  std::size_t entries = 0;
  for ([[maybe_unused]] const auto field : vocab) ++entries;
  require<DataError>(entries > 0, "{} is empty", where);
  Lookup lookup;
  lookup.reserve(entries);
  for (const auto field : vocab) {
    const TokenId id = token_id(field.value, entries, where);
    const auto index = static_cast<std::size_t>(id);
    if (index >= spec.vocabulary.size()) spec.vocabulary.resize(index + 1);
    require<DataError>(!field.key.empty(), "{} has an empty token (id {})", where, id);
    require<DataError>(spec.vocabulary[index].empty(), "{} gives id {} to '{}' and to '{}'", where, id,
                       spec.vocabulary[index], field.key);
    require<DataError>(lookup.emplace(field.key, id).second, "{} has token '{}' twice", where, field.key);
    spec.vocabulary[index] = field.key;
  }
  return lookup;
}

void add_merge(std::string_view left, std::string_view right, const Lookup& lookup, std::string& joined,
               TokenizerSpec& spec) {
  joined.assign(left).append(right);
  const auto id_of = [&](std::string_view token) {
    const auto found = lookup.find(token);
    require<DataError>(found != lookup.end(), "merge {} ('{}' '{}'): '{}' is not in the vocabulary",
                       spec.merges.size(), left, right, token);
    return found->second;
  };
  spec.merges.push_back({id_of(left), id_of(right), id_of(joined)});
}

void add_merge_line(std::string_view line, const Lookup& lookup, std::string& joined, TokenizerSpec& spec) {
  const auto space = line.find(' ');
  require<DataError>(space != line.npos && line.find(' ', space + 1) == line.npos,
                     "merge {} is '{}', expected two tokens with a space between", spec.merges.size(), line);
  add_merge(line.substr(0, space), line.substr(space + 1), lookup, joined, spec);
}

// BertNormalizer, BertPreTokenizer and their decoder around a WordPiece model.
void read_wordpiece(json::object root, json::object model, TokenizerSpec& spec) {
  spec.form = SymbolForm::kWordPiece;
  spec.split = SplitPattern::kNone;
  only_keys(model, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
            "model");
  const auto part = [&](std::string_view key, std::string_view type) {
    const auto e = member(root, key);
    require<DataError>(e.has_value(), "a WordPiece tokenizer.json has no {}: expected {}", key, type);
    const json::object o = object_of(*e, key);
    require<DataError>(type_of(o, key) == type, "{} {} with WordPiece is not supported (Stoa has {})", key,
                       type_of(o, key), type);
    return o;
  };
  WordPieceOptions& w = spec.wordpiece;
  const json::object normalizer = part("normalizer", "BertNormalizer");
  only_keys(normalizer, {"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"},
            "normalizer");
  w.clean_text = flag(normalizer, "clean_text", true, "normalizer");
  w.handle_chinese_chars = flag(normalizer, "handle_chinese_chars", true, "normalizer");
  w.lowercase = flag(normalizer, "lowercase", true, "normalizer");
  if (member(normalizer, "strip_accents"))
    w.strip_accents = flag(normalizer, "strip_accents", true, "normalizer");
  part("pre_tokenizer", "BertPreTokenizer");
  if (member(root, "decoder")) {
    const json::object decoder = part("decoder", "WordPiece");
    only_keys(decoder, {"type", "prefix", "cleanup"}, "decoder");
    w.cleanup = flag(decoder, "cleanup", true, "decoder");
  }
  const auto text = [&](const char* key, std::string otherwise) {
    const auto e = member(model, key);
    return e ? text_of(*e, key) : otherwise;
  };
  w.prefix = text("continuing_subword_prefix", "##");
  spec.unk = text("unk_token", "[UNK]");
  if (const auto e = member(model, "max_input_chars_per_word")) {
    std::uint64_t most = 0;
    require<DataError>(!e->get(most) && most <= 1'000'000,
                       "model.max_input_chars_per_word must be a whole number from 0 to 1000000");
    w.max_characters = static_cast<std::int64_t>(most);
  }
  const auto vocab = member(model, "vocab");
  require<DataError>(vocab.has_value(), "model.vocab is missing");
  read_vocabulary(object_of(*vocab, "model.vocab"), "model.vocab", spec);
  // The usual names, until tokenizer_config.json gives others.
  for (const auto& [name, role] : {std::pair{"[CLS]", &spec.cls}, std::pair{"[SEP]", &spec.sep},
                                   std::pair{"[MASK]", &spec.mask}, std::pair{"[PAD]", &spec.pad}})
    if (std::find(spec.vocabulary.begin(), spec.vocabulary.end(), name) != spec.vocabulary.end())
      *role = name;
}

void read_model(json::object model, TokenizerSpec& spec) {
  const std::string type = member(model, "type") ? type_of(model, "model") : "BPE";
  require<DataError>(type == "BPE", "the tokenizer model is {}: Stoa reads BPE and WordPiece", type);
  only_keys(model,
            {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
             "byte_fallback", "ignore_merges", "vocab", "merges"},
            "model");
  if (const auto dropout = member(model, "dropout")) {
    double p = 0;
    require<DataError>(!dropout->get(p) && p == 0, "model.dropout makes encoding random: not supported");
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const auto e = member(model, key);
    require<DataError>(!e || text_of(*e, key).empty(), "model.{} is not supported", key);
  }
  // unk_token, fuse_unk and byte_fallback concern symbols without a token: with all 256 bytes there is none.
  spec.ignore_merges = flag(model, "ignore_merges", false, "model");
  require<DataError>(!spec.ignore_merges || spec.form == SymbolForm::kByteLevel,
                     "model.ignore_merges with byte_fallback is not supported");
  const auto vocab = member(model, "vocab");
  require<DataError>(vocab.has_value(), "model.vocab is missing");
  const Lookup lookup = read_vocabulary(object_of(*vocab, "model.vocab"), "model.vocab", spec);
  if (const auto unk = member(model, "unk_token"); unk && lookup.contains(text_of(*unk, "model.unk_token"))) {
    spec.unk = text_of(*unk, "model.unk_token");
  }
  const auto merges = member(model, "merges");
  json::array list;
  require<DataError>(merges && !merges->get(list), "model.merges must be a list");
  std::string joined;
  for (const json::element merge : list) {
    std::string_view line;
    if (!merge.get(line)) {
      add_merge_line(line, lookup, joined, spec);
      continue;
    }
    json::array pair;
    std::string_view left, right;
    require<DataError>(
        !merge.get(pair) && pair.size() == 2 && !pair.at(0).get(left) && !pair.at(1).get(right),
        "merge {} must be \"left right\" or [\"left\", \"right\"]", spec.merges.size());
    add_merge(left, right, lookup, joined, spec);
  }
}

void read_normalizer(json::object o, TokenizerSpec& spec) {
  const std::string type = type_of(o, "normalizer");
  if (type == "NFC") {
    spec.nfc = true;
    return;
  }
  require<DataError>(type == "Sequence", "normalizer {} is not supported (Stoa has NFC)", type);
  json::array list;
  require<DataError>(!o["normalizers"].get(list), "normalizer.normalizers must be a list");
  for (const json::element e : list) {
    const json::object inner = object_of(e, "normalizer.normalizers");
    const std::string kind = type_of(inner, "normalizer");
    require<DataError>(kind == "NFC", "normalizer {} is not supported (Stoa has NFC)", kind);
    spec.nfc = true;
  }
}

struct PreTokenizerState {
  bool split = false, byte_level = false;
};

void read_pre_tokenizer(json::object o, TokenizerSpec& spec, PreTokenizerState& state, bool nested) {
  const std::string type = type_of(o, "pre_tokenizer");
  require<DataError>(!state.byte_level, "pre_tokenizer {} after ByteLevel is not supported", type);
  if (type == "ByteLevel") {
    only_keys(o, {"type", "add_prefix_space", "trim_offsets", "use_regex"}, "pre_tokenizer ByteLevel");
    state.byte_level = true;
    spec.add_prefix_space = flag(o, "add_prefix_space", true, "pre_tokenizer");
    spec.trim_offsets = flag(o, "trim_offsets", true, "pre_tokenizer");
    const bool use_regex = flag(o, "use_regex", true, "pre_tokenizer");
    require<DataError>(!state.split || !use_regex,
                       "pre_tokenizer Split followed by ByteLevel with use_regex is not supported");
    require<DataError>(!state.split || !spec.add_prefix_space,
                       "pre_tokenizer Split followed by ByteLevel with add_prefix_space is not supported");
    if (!state.split) spec.split = use_regex ? SplitPattern::kGpt2 : SplitPattern::kNone;
  } else if (type == "Split") {
    only_keys(o, {"type", "pattern", "behavior", "invert"}, "pre_tokenizer Split");
    require<DataError>(!state.split, "two Split pre_tokenizers are not supported");
    state.split = true;
    const auto pattern = member(o, "pattern");
    require<DataError>(pattern.has_value(), "pre_tokenizer Split has no pattern");
    const auto expression = member(object_of(*pattern, "pre_tokenizer.pattern"), "Regex");
    require<DataError>(expression.has_value(), "pre_tokenizer Split by a String is not supported");
    const std::string given = text_of(*expression, "pre_tokenizer.pattern.Regex");
    const auto known = split_pattern_of_regex(given);
    require<DataError>(known.has_value(),
                       "pre_tokenizer Split has the unsupported pattern {} (Stoa has those of GPT-2, "
                       "Llama-3, Qwen-2, BLOOM)",
                       given);
    spec.split = *known;
    const auto behavior = member(o, "behavior");
    const std::string how = behavior ? text_of(*behavior, "pre_tokenizer.behavior") : "";
    const bool invert = flag(o, "invert", false, "pre_tokenizer");
    // The patterns but BLOOM's match every text without gaps, so removing what lies between matches removes
    // nothing.
    require<DataError>(
        (how == "Isolated" && !invert) || (how == "Removed" && invert && spec.split != SplitPattern::kBloom),
        "pre_tokenizer Split with behavior {}, invert {} is not supported", how, invert);
  } else {
    require<DataError>(type == "Sequence" && !nested,
                       "pre_tokenizer {} is not supported (Stoa has ByteLevel, or Split and ByteLevel)",
                       type);
    json::array list;
    require<DataError>(!o["pretokenizers"].get(list), "pre_tokenizer.pretokenizers must be a list");
    for (const json::element e : list) {
      read_pre_tokenizer(object_of(e, "pre_tokenizer.pretokenizers"), spec, state, true);
    }
  }
}

// The one arrangement of Llama-2, Mistral and kin: spaces become U+2581 and one goes in front, no words are
// cut.
void read_sentencepiece(json::object root, TokenizerSpec& spec) {
  spec.form = SymbolForm::kSentencePiece;
  spec.split = SplitPattern::kNone;
  const auto expect = [&](std::string_view key, std::string_view wanted) {
    const auto e = member(root, key);
    require<DataError>(e && simdjson::minify(*e) == wanted,
                       "{} of a tokenizer with byte_fallback must be {} (that of Llama-2): not supported",
                       key, wanted);
  };
  expect("normalizer", R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
                       R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]})");
  expect("decoder",
         R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
         R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})");
}

void read_template(json::object o, TokenizerSpec& spec) {
  only_keys(o, {"type", "single", "pair", "special_tokens"}, "post_processor TemplateProcessing");
  json::array single;
  require<DataError>(!o["single"].get(single), "post_processor.single must be a list");
  bool seen = false;
  for (const json::element e : single) {
    const json::object part = object_of(e, "post_processor.single");
    if (member(part, "Sequence")) {
      require<DataError>(!seen, "post_processor.single holds the text twice: not supported");
      seen = true;
      continue;
    }
    const auto special = member(part, "SpecialToken");
    require<DataError>(special.has_value(), "post_processor.single holds neither Sequence nor SpecialToken");
    const auto id = member(object_of(*special, "SpecialToken"), "id");
    require<DataError>(id.has_value(), "post_processor: SpecialToken has no id");
    const std::string token = text_of(*id, "SpecialToken.id");
    json::array ids;
    json::element entry;
    require<DataError>(!o["special_tokens"].at_key(token).get(entry) && !entry["ids"].get(ids),
                       "post_processor.special_tokens has no ids for '{}'", token);
    for (const json::element i : ids) {
      (seen ? spec.after : spec.before).push_back(token_id(i, spec.vocabulary.size(), "post_processor"));
    }
  }
  require<DataError>(seen, "post_processor.single does not hold the text");
}

void read_post_processor(json::object o, TokenizerSpec& spec, bool nested) {
  const std::string type = type_of(o, "post_processor");
  if (type == "ByteLevel") return;  // trims offsets only
  const bool fresh = spec.before.empty() && spec.after.empty();
  if (type == "TemplateProcessing") {
    require<DataError>(fresh, "two post_processors that add tokens are not supported");
    read_template(o, spec);
  } else if (type == "RobertaProcessing" || type == "BertProcessing") {
    require<DataError>(fresh, "two post_processors that add tokens are not supported");
    for (const char* key : {"cls", "sep"}) {
      json::array pair;
      require<DataError>(!o[key].get(pair) && pair.size() == 2, "post_processor.{} must be [token, id]", key);
      auto& side = key[0] == 'c' ? spec.before : spec.after;
      side.push_back(token_id(pair.at(1).value(), spec.vocabulary.size(), "post_processor"));
    }
  } else {
    require<DataError>(type == "Sequence" && !nested, "post_processor {} is not supported", type);
    json::array list;
    require<DataError>(!o["processors"].get(list), "post_processor.processors must be a list");
    for (const json::element e : list) {
      read_post_processor(object_of(e, "post_processor.processors"), spec, true);
    }
  }
}

AddedToken read_added(json::object o, std::size_t entries) {
  only_keys(o, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"},
            "added_tokens");
  AddedToken t;
  const auto content = member(o, "content");
  require<DataError>(content.has_value(), "an added token has no content");
  t.content = text_of(*content, "added_tokens.content");
  require<DataError>(!t.content.empty(), "an added token is empty");
  if (const auto id = member(o, "id")) t.id = token_id(*id, entries, "added_tokens");
  t.special = flag(o, "special", false, "added_tokens");
  t.single_word = flag(o, "single_word", false, "added_tokens");
  t.lstrip = flag(o, "lstrip", false, "added_tokens");
  t.rstrip = flag(o, "rstrip", false, "added_tokens");
  t.normalized = flag(o, "normalized", !t.special, "added_tokens");
  return t;
}

AddedToken* added_of(TokenizerSpec& spec, std::string_view content) {
  for (AddedToken& t : spec.added) {
    if (t.content == content) return &t;
  }
  return nullptr;
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view text) {
  json::parser parser;
  const json::object root = object_of(parse(parser, text, "tokenizer.json"), "tokenizer.json");
  only_keys(root,
            {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"},
            "tokenizer.json");
  if (const auto version = member(root, "version")) {
    const std::string v = text_of(*version, "version");
    require<DataError>(v == "1.0", "tokenizer.json has version {}, expected 1.0", v);
  }
  TokenizerSpec spec;
  const auto model = member(root, "model");
  require<DataError>(model.has_value(), "tokenizer.json has no model");
  const json::object model_object = object_of(*model, "model");
  const bool wordpiece = member(model_object, "type") && type_of(model_object, "model") == "WordPiece";
  // Those of BERT often have both from the program that saved them; transformers applies neither unless it is
  // asked to.
  for (const char* key : {"truncation", "padding"}) {
    require<DataError>(wordpiece || !member(root, key),
                       "tokenizer.json has '{}', which Stoa does not support", key);
  }
  const auto pre = member(root, "pre_tokenizer");
  if (wordpiece) {
    read_wordpiece(root, model_object, spec);
  } else if (!pre && flag(model_object, "byte_fallback", false, "model")) {
    read_sentencepiece(root, spec);
  } else {
    if (const auto normalizer = member(root, "normalizer"))
      read_normalizer(object_of(*normalizer, "normalizer"), spec);
    require<DataError>(pre.has_value(),
                       "tokenizer.json has no pre_tokenizer and no byte_fallback: not supported");
    PreTokenizerState state;
    read_pre_tokenizer(object_of(*pre, "pre_tokenizer"), spec, state, false);
    require<DataError>(state.byte_level, "the pre_tokenizer has no ByteLevel: not supported");
    // Without a decoder the tokens are still bytes in the byte alphabet: they are decoded as ByteLevel does.
    if (const auto decoder = member(root, "decoder")) {
      const std::string type = type_of(object_of(*decoder, "decoder"), "decoder");
      require<DataError>(type == "ByteLevel", "decoder {} is not supported (Stoa has ByteLevel)", type);
    }
  }
  if (!wordpiece) read_model(model_object, spec);
  if (const auto added = member(root, "added_tokens")) {
    json::array list;
    require<DataError>(!added->get(list), "added_tokens must be a list");
    const std::size_t entries = spec.vocabulary.size() + list.size();
    for (const json::element e : list) {
      AddedToken t = read_added(object_of(e, "added_tokens"), entries);
      require<DataError>(t.id >= 0, "added token '{}' has no id", t.content);
      require<DataError>(!t.normalized || spec.form != SymbolForm::kSentencePiece,
                         "added token '{}' is normalized: not supported with byte_fallback", t.content);
      spec.added.push_back(std::move(t));
    }
  }
  if (const auto post = member(root, "post_processor")) {
    read_post_processor(object_of(*post, "post_processor"), spec, false);
  }
  return spec;
}

TokenizerSpec parse_vocab_merges(std::string_view vocab_text, std::string_view merges_text) {
  TokenizerSpec spec;
  json::parser parser;
  const json::object vocab = object_of(parse(parser, vocab_text, "vocab.json"), "vocab.json");
  const Lookup lookup = read_vocabulary(vocab, "vocab.json", spec);
  std::string joined;
  for (std::size_t at = 0; at < merges_text.size();) {
    const std::size_t end = std::min(merges_text.find('\n', at), merges_text.size());
    std::string_view line = merges_text.substr(at, end - at);
    at = end + 1;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("#version") || line.empty()) continue;
    add_merge_line(line, lookup, joined, spec);
  }
  if (const auto eod = lookup.find("<|endoftext|>"); eod != lookup.end()) {
    spec.added.push_back({.id = eod->second, .content = "<|endoftext|>"});
    spec.bos = spec.eos = spec.unk = "<|endoftext|>";
  }
  return spec;
}

TokenizerSpec parse_vocab_txt(std::string_view text) {
  TokenizerSpec spec;
  spec.form = SymbolForm::kWordPiece;
  spec.split = SplitPattern::kNone;
  Lookup lookup;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    while (line.ends_with('\r')) line.remove_suffix(1);
    const auto id = static_cast<TokenId>(spec.vocabulary.size());
    require<DataError>(simdjson::validate_utf8(line.data(), line.size()),
                       "vocab.txt, line {}: the token is not UTF-8 text", id + 1);
    if (!line.empty())
      require<DataError>(lookup.emplace(line, id).second, "vocab.txt has token '{}' twice (line {})", line,
                         id + 1);
    spec.vocabulary.emplace_back(line);
  }
  const std::pair<const char*, std::string*> usual[] = {{"[PAD]", &spec.pad},
                                                        {"[UNK]", &spec.unk},
                                                        {"[CLS]", &spec.cls},
                                                        {"[SEP]", &spec.sep},
                                                        {"[MASK]", &spec.mask}};
  for (const auto& [token, role] : usual) {
    const auto found = lookup.find(token);
    if (found == lookup.end()) continue;
    spec.added.push_back({.id = found->second, .content = token});
    *role = token;
  }
  require<DataError>(!spec.unk.empty(), "vocab.txt has no [UNK]: some words would have no token");
  if (!spec.cls.empty() && !spec.sep.empty())
    spec.before = {lookup.at("[CLS]")}, spec.after = {lookup.at("[SEP]")};
  return spec;
}

void apply_tokenizer_config(std::string_view text, TokenizerSpec& spec) {
  json::parser parser;
  const json::object root = object_of(parse(parser, text, "tokenizer_config.json"), "tokenizer_config.json");
  if (const auto added = member(root, "added_tokens_decoder")) {
    const json::object table = object_of(*added, "added_tokens_decoder");
    std::size_t entries = spec.vocabulary.size() + spec.added.size();
    for ([[maybe_unused]] const auto field : table) ++entries;
    for (const auto field : table) {
      AddedToken t = read_added(object_of(field.value, "added_tokens_decoder"), entries);
      std::uint64_t id = 0;
      for (const char c : field.key) {
        require<DataError>(c >= '0' && c <= '9' && id < 100'000'000,
                           "added_tokens_decoder: '{}' is not an id", field.key);
        id = id * 10 + static_cast<std::uint64_t>(c - '0');
      }
      require<DataError>(id < 4 * entries + 65536,
                         "added_tokens_decoder: token id {} is far beyond the {} entries", id, entries);
      t.id = static_cast<TokenId>(id);
      if (AddedToken* known = added_of(spec, t.content)) {
        require<DataError>(known->id == t.id, "tokenizer_config.json gives '{}' id {}, the tokenizer has {}",
                           t.content, t.id, known->id);
        *known = t;
      } else {
        spec.added.push_back(std::move(t));
      }
    }
  }
  const std::pair<const char*, std::string*> roles[] = {
      {"bos_token", &spec.bos}, {"eos_token", &spec.eos}, {"pad_token", &spec.pad},  {"unk_token", &spec.unk},
      {"cls_token", &spec.cls}, {"sep_token", &spec.sep}, {"mask_token", &spec.mask}};
  for (const auto& [key, target] : roles) {
    const auto e = member(root, key);
    if (!e) continue;
    if (e->is_object()) {
      const auto content = member(object_of(*e, key), "content");
      require<DataError>(content.has_value(), "{} has no content", key);
      *target = text_of(*content, key);
    } else {
      *target = text_of(*e, key);
    }
  }
  if (spec.form == SymbolForm::kWordPiece) {
    WordPieceOptions& w = spec.wordpiece;
    w.lowercase = flag(root, "do_lower_case", w.lowercase, "tokenizer_config");
    w.handle_chinese_chars = flag(root, "tokenize_chinese_chars", w.handle_chinese_chars, "tokenizer_config");
    if (member(root, "strip_accents"))
      w.strip_accents = flag(root, "strip_accents", true, "tokenizer_config");
  }
  if (const auto e = member(root, "extra_ids")) {
    std::uint64_t count = 0;
    require<DataError>(!e->get(count) && count <= 100'000,
                       "extra_ids must be a whole number from 0 to 100000");
    spec.sentinels = static_cast<std::int64_t>(count);
  }
  if (const auto e = member(root, "add_bos_token"))
    spec.add_bos = flag(root, "add_bos_token", false, "tokenizer_config");
  if (const auto e = member(root, "chat_template")) {
    json::array list;
    if (e->get(list)) {
      spec.chat_template = text_of(*e, "chat_template");
    } else {
      for (const json::element item : list) {  // several: the one named "default", else the first
        const json::object o = object_of(item, "chat_template");
        const auto body = member(o, "template"), label = member(o, "name");
        require<DataError>(body && label, "a chat_template needs a name and a template");
        if (spec.chat_template.empty() || text_of(*label, "chat_template.name") == "default") {
          spec.chat_template = text_of(*body, "chat_template.template");
        }
      }
    }
  }
  if (const auto e = member(root, "model_max_length")) {
    std::int64_t length = 0;  // transformers writes 1e30 for "no limit", which is no integer here
    if (!e->get(length) && length > 0) spec.model_max_length = length;
  }
}

}  // namespace stoa::token
