// Writes tokenizer files in the form of Hugging Face.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {
namespace {

using Json = nlohmann::ordered_json;

// Large tables are written as text directly: a JSON tree of 100,000 tokens would be slow and large.
std::string quoted(const std::string& text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::strict);
}

Json byte_level(bool add_prefix_space, bool trim_offsets, bool use_regex) {
  return {{"type", "ByteLevel"},
          {"add_prefix_space", add_prefix_space},
          {"trim_offsets", trim_offsets},
          {"use_regex", use_regex}};
}

Json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

Json normalizer(const TokenizerSpec& spec) {
  if (spec.form == SymbolForm::kSentencePiece) {
    const Json prepend = {{"type", "Prepend"}, {"prepend", "▁"}};
    return {{"type", "Sequence"}, {"normalizers", Json::array({prepend, replace(" ", "▁")})}};
  }
  if (spec.form == SymbolForm::kWordPiece) {
    const WordPieceOptions& w = spec.wordpiece;
    return {{"type", "BertNormalizer"},
            {"clean_text", w.clean_text},
            {"handle_chinese_chars", w.handle_chinese_chars},
            {"strip_accents", w.strip_accents ? Json(*w.strip_accents) : Json(nullptr)},
            {"lowercase", w.lowercase}};
  }
  return spec.nfc ? Json{{"type", "NFC"}} : Json(nullptr);
}

Json decoder(const TokenizerSpec& spec) {
  if (spec.form == SymbolForm::kByteLevel) return byte_level(spec.add_prefix_space, spec.trim_offsets, true);
  if (spec.form == SymbolForm::kWordPiece)
    return {{"type", "WordPiece"}, {"prefix", spec.wordpiece.prefix}, {"cleanup", spec.wordpiece.cleanup}};
  const Json strip = {{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}};
  return {
      {"type", "Sequence"},
      {"decoders", Json::array({replace("▁", " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}, strip})}};
}

Json pre_tokenizer(const TokenizerSpec& spec) {
  if (spec.form == SymbolForm::kSentencePiece) return nullptr;
  if (spec.form == SymbolForm::kWordPiece) return {{"type", "BertPreTokenizer"}};
  const bool plain = spec.split == SplitPattern::kGpt2 || spec.split == SplitPattern::kNone;
  const Json last = byte_level(spec.add_prefix_space, spec.trim_offsets, spec.split == SplitPattern::kGpt2);
  if (plain) return last;
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", std::string(regex(spec.split))}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, last})}};
}

std::string content_of(const TokenizerSpec& spec, TokenId id) {
  for (const AddedToken& t : spec.added) {
    if (t.id == id) return t.content;
  }
  const auto index = static_cast<std::size_t>(id);
  require<DataError>(index < spec.vocabulary.size(),
                     "the post-processor names token id {}, which has no token", id);
  return spec.vocabulary[index];
}

Json post_processor(const TokenizerSpec& spec) {
  const Json offsets = byte_level(spec.add_prefix_space, spec.trim_offsets, true);
  const bool bytes = spec.form == SymbolForm::kByteLevel;
  if (spec.before.empty() && spec.after.empty()) return bytes ? offsets : Json(nullptr);
  const auto around = [&](int type_id, const char* sequence) {
    Json list = Json::array();
    for (const TokenId id : spec.before) {
      list.push_back({{"SpecialToken", {{"id", content_of(spec, id)}, {"type_id", type_id}}}});
    }
    list.push_back({{"Sequence", {{"id", sequence}, {"type_id", type_id}}}});
    for (const TokenId id : spec.after) {
      list.push_back({{"SpecialToken", {{"id", content_of(spec, id)}, {"type_id", type_id}}}});
    }
    return list;
  };
  Json pair = around(0, "A");
  if (spec.pair) {
    pair = Json::array();
    const auto add = [&](const std::vector<TokenId>& ids, int type_id) {
      for (const TokenId id : ids)
        pair.push_back({{"SpecialToken", {{"id", content_of(spec, id)}, {"type_id", type_id}}}});
    };
    add(spec.pair->before, 0);
    pair.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
    add(spec.pair->between, 0);
    pair.push_back({{"Sequence", {{"id", "B"}, {"type_id", 1}}}});
    add(spec.pair->after, 1);
  } else {
    for (const auto& part : around(1, "B")) pair.push_back(part);
  }
  Json special = Json::object();
  for (const auto& side : {spec.before, spec.after}) {
    for (const TokenId id : side) {
      const std::string token = content_of(spec, id);
      special[token] = {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
    }
  }
  const Json added = {{"type", "TemplateProcessing"},
                      {"single", around(0, "A")},
                      {"pair", pair},
                      {"special_tokens", special}};
  if (!bytes) return added;
  return {{"type", "Sequence"}, {"processors", Json::array({offsets, added})}};
}

Json flags_of(const AddedToken& t) {
  return {{"content", t.content}, {"single_word", t.single_word}, {"lstrip", t.lstrip},
          {"rstrip", t.rstrip},   {"normalized", t.normalized},   {"special", t.special}};
}

std::vector<AddedToken> by_id(const TokenizerSpec& spec) {
  auto added = spec.added;
  std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  return added;
}

Json named_tokens(const TokenizerSpec& spec) {
  Json out = Json::object();
  if (!spec.bos.empty()) out["bos_token"] = spec.bos;
  if (!spec.eos.empty()) out["eos_token"] = spec.eos;
  if (!spec.pad.empty()) out["pad_token"] = spec.pad;
  if (!spec.unk.empty()) out["unk_token"] = spec.unk;
  if (!spec.cls.empty()) out["cls_token"] = spec.cls;
  if (!spec.sep.empty()) out["sep_token"] = spec.sep;
  if (!spec.mask.empty()) out["mask_token"] = spec.mask;
  return out;
}

std::string vocabulary_object(const TokenizerSpec& spec, std::string_view indent) {
  std::string out = "{";
  const char* separator = "\n";
  for (std::size_t id = 0; id < spec.vocabulary.size(); ++id) {
    if (spec.vocabulary[id].empty()) continue;
    out += fmt::format("{}{}  {}: {}", separator, indent, quoted(spec.vocabulary[id]), id);
    separator = ",\n";
  }
  return out + fmt::format("\n{}}}", indent);
}

}  // namespace

std::string tokenizer_json(const TokenizerSpec& spec) {
  // Components have no other form than their file; a cutter neither.
  const bool file_alone = spec.form == SymbolForm::kComponents || spec.split == SplitPattern::kOther;
  if (file_alone) {
    require<DataError>(spec.original.name == "tokenizer.json",
                       "this tokenizer cannot be written as tokenizer.json: it is a {}", spec.original.name);
    return spec.original.text;
  }
  Json added = Json::array();
  for (const AddedToken& t : by_id(spec)) {
    Json entry = {{"id", t.id}};
    entry.update(flags_of(t));
    added.push_back(entry);
  }
  std::string out = "{\n  \"version\": \"1.0\",\n  \"truncation\": null,\n  \"padding\": null,\n";
  const auto part = [&out](const char* key, const Json& value) {
    out += fmt::format("  \"{}\": {},\n", key, value.dump());
  };
  part("added_tokens", added);
  part("normalizer", normalizer(spec));
  part("pre_tokenizer", pre_tokenizer(spec));
  part("post_processor", post_processor(spec));
  part("decoder", decoder(spec));
  if (spec.form == SymbolForm::kWordPiece) {
    const WordPieceOptions& w = spec.wordpiece;
    return out + fmt::format(
                     "  \"model\": {{\n    \"type\": \"WordPiece\",\n    \"unk_token\": {},\n"
                     "    \"continuing_subword_prefix\": {},\n    \"max_input_chars_per_word\": {},\n"
                     "    \"vocab\": {}\n  }}\n}}\n",
                     quoted(spec.unk), quoted(w.prefix), w.max_characters, vocabulary_object(spec, "    "));
  }
  const bool characters = spec.form == SymbolForm::kSentencePiece;
  const Json unk = characters && !spec.unk.empty() ? Json(spec.unk) : Json(nullptr);
  out += fmt::format(
      "  \"model\": {{\n    \"type\": \"BPE\",\n    \"dropout\": null,\n    \"unk_token\": {},\n"
      "    \"continuing_subword_prefix\": null,\n    \"end_of_word_suffix\": null,\n    \"fuse_unk\": {},\n"
      "    \"byte_fallback\": {},\n    \"ignore_merges\": {},\n    \"vocab\": ",
      unk.dump(), characters, characters, spec.ignore_merges);
  out += vocabulary_object(spec, "    ") + ",\n    \"merges\": [";
  const char* separator = "\n";
  for (const Merge& m : spec.merges) {
    out +=
        fmt::format("{}      [{}, {}]", separator, quoted(spec.vocabulary[static_cast<std::size_t>(m.left)]),
                    quoted(spec.vocabulary[static_cast<std::size_t>(m.right)]));
    separator = ",\n";
  }
  return out + "\n    ]\n  }\n}\n";
}

std::string vocab_json(const TokenizerSpec& spec) { return vocabulary_object(spec, "") + "\n"; }

std::string merges_txt(const TokenizerSpec& spec) {
  std::string out = "#version: 0.2\n";
  for (const Merge& m : spec.merges) {
    out += spec.vocabulary[static_cast<std::size_t>(m.left)] + ' ' +
           spec.vocabulary[static_cast<std::size_t>(m.right)] + '\n';
  }
  return out;
}

std::string vocab_txt(const TokenizerSpec& spec) {
  std::string out;
  for (const std::string& token : spec.vocabulary) out += token + '\n';
  return out;
}

std::string special_tokens_map_json(const TokenizerSpec& spec) { return named_tokens(spec).dump(2) + "\n"; }

std::string tokenizer_config_json(const TokenizerSpec& spec) {
  const bool wordpiece = spec.form == SymbolForm::kWordPiece, model = spec.form == SymbolForm::kModel;
  const char* type = wordpiece            ? "BertTokenizer"
                     : !model             ? "PreTrainedTokenizerFast"
                     : spec.after.empty() ? "LlamaTokenizer"
                                          : "T5Tokenizer";
  Json out = {{"tokenizer_class", type},
              {"clean_up_tokenization_spaces", wordpiece && spec.wordpiece.cleanup}};
  out.update(named_tokens(spec));
  if (wordpiece) {
    const WordPieceOptions& w = spec.wordpiece;
    out["do_lower_case"] = w.lowercase;
    out["tokenize_chinese_chars"] = w.handle_chinese_chars;
    out["strip_accents"] = w.strip_accents ? Json(*w.strip_accents) : Json(nullptr);
  } else if (!model) {
    out["add_prefix_space"] = spec.add_prefix_space;
  }
  if (spec.sentinels) out["extra_ids"] = *spec.sentinels;
  if (spec.add_bos) out["add_bos_token"] = *spec.add_bos;
  if (!spec.pattern.empty()) out["pat_str"] = spec.pattern;
  if (spec.model_max_length) out["model_max_length"] = *spec.model_max_length;
  if (spec.more_templates.empty()) {
    if (!spec.chat_template.empty()) out["chat_template"] = spec.chat_template;
  } else {
    out["chat_template"] = Json::array();
    if (!spec.chat_template.empty())
      out["chat_template"].push_back({{"name", "default"}, {"template", spec.chat_template}});
    for (const auto& [name, text] : spec.more_templates)
      out["chat_template"].push_back({{"name", name}, {"template", text}});
  }
  Json added = Json::object();
  for (const AddedToken& t : by_id(spec)) added[std::to_string(t.id)] = flags_of(t);
  out["added_tokens_decoder"] = added;
  return out.dump(2) + "\n";
}

}  // namespace stoa::token
