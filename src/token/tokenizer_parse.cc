// Reads tokenizer.json. Anything unknown in it is an error that names it.
#include <algorithm>
#include <unordered_map>

#include "token/byte_alphabet.h"
#include "token/models/bpe_model.h"
#include "token/pipeline/pipeline.h"
#include "token/pre_tokenizers/rewrites.h"
#include "token/pre_tokenizers/splits.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {
namespace {

// Components in the order of application: those of a Sequence, or the single one.
std::vector<json::object> in_order(std::optional<json::element> component, const char* list) {
  std::vector<json::object> out;
  json::object o;
  if (!component || component->get(o)) return out;
  json::array parts;
  const auto inner = member(o, list);
  if (type_of(o, list) != "Sequence" || !inner || inner->get(parts)) return {o};
  for (const json::element e : parts) {
    const auto nested = in_order(e, list);
    out.insert(out.end(), nested.begin(), nested.end());
  }
  return out;
}

bool is_type(json::object o, std::string_view type) {
  const auto e = member(o, "type");
  std::string_view given;
  return e && !e->get(given) && given == type;
}

// Truncation and padding apply to batches: they are parsed, so that an invalid file is reported, and written
// back unchanged; Stoa does neither, nor does transformers unless asked to.
void check_batching(json::object root) {
  if (const auto e = member(root, "truncation")) {
    const json::object o = object_of(*e, "truncation");
    only_keys(o, {"direction", "max_length", "strategy", "stride"}, "truncation");
    count_member(o, "max_length", std::nullopt, ~std::uint64_t{0}, "truncation");
  }
  if (const auto e = member(root, "padding")) {
    const json::object o = object_of(*e, "padding");
    only_keys(o, {"strategy", "direction", "pad_to_multiple_of", "pad_id", "pad_type_id", "pad_token"},
              "padding");
  }
}

AddedToken read_added_token(json::object o, std::size_t entries) {
  only_keys(o, {"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special", "__type"},
            "added_tokens");
  AddedToken t;
  t.content = text_member(o, "content", "added_tokens");
  t.id = token_id(required(o, "id", fmt::format("added token '{}'", t.content)), entries, "added_tokens");
  t.special = flag(o, "special", false, "added_tokens");
  t.single_word = flag(o, "single_word", false, "added_tokens");
  t.lstrip = flag(o, "lstrip", false, "added_tokens");
  t.rstrip = flag(o, "rstrip", false, "added_tokens");
  t.normalized = flag(o, "normalized", !t.special, "added_tokens");
  return t;
}

// The bytes that UTF-8 text can hold: all but 0xC0, 0xC1 and 0xF5 … 0xFF.
bool in_utf8(unsigned byte) { return byte != 0xC0 && byte != 0xC1 && byte < 0xF5; }

// at_key would search the whole object for every token.
bool has_all(json::object vocab, const std::vector<std::string>& tokens) {
  std::unordered_map<std::string_view, bool> wanted;
  for (const std::string& token : tokens) wanted.emplace(token, false);
  std::size_t found = 0;
  for (const auto field : vocab) {
    const auto it = wanted.find(field.key);
    if (it == wanted.end() || it->second) continue;
    it->second = true;
    ++found;
  }
  return found == wanted.size();
}

void take_bpe(json::object model, TokenizerSpec& spec) {
  const auto bpe = BpeModel::read(model);
  spec.vocabulary = bpe->vocabulary().tokens;
  spec.merges = bpe->merges();
  spec.ignore_merges = bpe->options().ignore_merges;
  if (!bpe->options().unknown.empty() && bpe->vocabulary().find(bpe->options().unknown) >= 0)
    spec.unk = bpe->options().unknown;
}

bool plain_bpe(json::object model) {
  if (model_type(model) != "BPE") return false;
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"})
    if (const auto e = member(model, key); e && !text_of(*e, key).empty()) return false;
  double dropout = 0;
  const auto e = member(model, "dropout");
  return !e || (!e->get(dropout) && dropout < 1);
}

// The pattern of a Split that keeps all text, if Splitter implements it; else kOther.
SplitPattern known_split(json::object o) {
  const auto regex = member(object_of(required(o, "pattern", "Split"), "pattern"), "Regex");
  const SplitPattern known =
      regex ? split_pattern_of_regex(text_of(*regex, "Regex")).value_or(SplitPattern::kOther)
            : SplitPattern::kOther;
  const SplitBehavior behavior = read_behavior(o, std::nullopt, "Split");
  // tiktoken interprets its pattern differently.
  if (known == SplitPattern::kCl100k) return SplitPattern::kOther;
  if (behavior == SplitBehavior::kIsolated) return known;
  // These patterns match all of any text; BLOOM's leaves text between its matches.
  const bool matches = behavior == SplitBehavior::kRemoved && flag(o, "invert", false, "Split");
  return matches && known != SplitPattern::kBloom ? known : SplitPattern::kOther;
}

// Byte-level BPE: words cut by patterns, each a text of bytes. True when the file is of this form.
bool take_byte_level(json::object root, json::object model, PipelineParts& parts, TokenizerSpec& spec) {
  const auto steps = in_order(member(root, "pre_tokenizer"), "pretokenizers");
  if (steps.empty() || !is_type(steps.back(), "ByteLevel") || !plain_bpe(model)) return false;
  const auto decoders = in_order(member(root, "decoder"), "decoders");
  if (decoders.size() != 1 || !is_type(decoders[0], "ByteLevel")) return false;
  const auto normalizers = in_order(member(root, "normalizer"), "normalizers");
  for (const json::object o : normalizers)
    if (!is_type(o, "NFC")) return false;
  std::vector<std::string> symbols;
  const ByteAlphabet alphabet;
  for (unsigned b = 0; b < 256; ++b) {
    if (!in_utf8(b)) continue;
    symbols.emplace_back();
    append_utf8(alphabet.symbol(static_cast<std::uint8_t>(b)), symbols.back());
  }
  const auto vocab = member(model, "vocab");
  json::object table;
  if (!vocab || vocab->get(table) || !has_all(table, symbols)) return false;
  const json::object last = steps.back();
  const bool words = flag(last, "use_regex", true, "pre_tokenizer");
  spec.add_prefix_space = flag(last, "add_prefix_space", true, "pre_tokenizer");
  spec.trim_offsets = flag(last, "trim_offsets", true, "pre_tokenizer");
  if (steps.size() == 1) {
    spec.split = words ? SplitPattern::kGpt2 : SplitPattern::kNone;
  } else {
    if (spec.add_prefix_space) return false;  // a blank in front of every piece that was cut before
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (is_type(steps[i], "Metaspace") || (is_type(steps[i], "ByteLevel") && i + 1 < steps.size()))
        return false;
    spec.split = SplitPattern::kOther;
    if (steps.size() == 2 && !words && is_type(steps[0], "Split")) {
      spec.split = known_split(steps[0]);
    }
    if (spec.split == SplitPattern::kOther) {
      std::vector<std::unique_ptr<const PreTokenizer>> cuts;
      for (const json::object o : steps) {
        const bool bytes = is_type(o, "ByteLevel");
        if (bytes && words) cuts.push_back(std::make_unique<SplitLikeGpt2>());
        if (!bytes) cuts.push_back(read_pre_tokenizer(o, parts.tables));
        spec.cutter_identity += simdjson::minify(o);
      }
      spec.cutter = std::make_shared<const PreTokenizerSequence>(std::move(cuts));
    }
  }
  spec.form = SymbolForm::kByteLevel;
  spec.nfc = !normalizers.empty();
  take_bpe(model, spec);
  return true;
}

// The usual names of BERT's special tokens, unless tokenizer_config.json gives others.
void name_usual_tokens(TokenizerSpec& spec) {
  for (const auto& [name, role] : {std::pair{"[CLS]", &spec.cls}, std::pair{"[SEP]", &spec.sep},
                                   std::pair{"[MASK]", &spec.mask}, std::pair{"[PAD]", &spec.pad}})
    if (std::find(spec.vocabulary.begin(), spec.vocabulary.end(), name) != spec.vocabulary.end())
      *role = name;
}

// BertNormalizer, BertPreTokenizer and the matching decoder around a WordPiece model.
bool take_wordpiece(json::object root, json::object model, TokenizerSpec& spec) {
  json::object normalizer, pre_tokenizer, decoder;
  const auto part = [&](const char* key, const char* type, json::object& o) {
    const auto e = member(root, key);
    return e && !e->get(o) && is_type(o, type);
  };
  if (!part("normalizer", "BertNormalizer", normalizer) ||
      !part("pre_tokenizer", "BertPreTokenizer", pre_tokenizer) || !part("decoder", "WordPiece", decoder))
    return false;
  WordPieceOptions& w = spec.wordpiece;
  w.prefix = text_member(model, "continuing_subword_prefix", "##", "model");
  if (text_member(decoder, "prefix", "##", "decoder") != w.prefix) return false;
  only_keys(model, {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"},
            "model");
  w.clean_text = flag(normalizer, "clean_text", true, "normalizer");
  w.handle_chinese_chars = flag(normalizer, "handle_chinese_chars", true, "normalizer");
  w.lowercase = flag(normalizer, "lowercase", true, "normalizer");
  if (member(normalizer, "strip_accents"))
    w.strip_accents = flag(normalizer, "strip_accents", true, "normalizer");
  w.cleanup = flag(decoder, "cleanup", true, "decoder");
  w.max_characters =
      static_cast<std::int64_t>(count_member(model, "max_input_chars_per_word", 100, 1'000'000, "model"));
  spec.form = SymbolForm::kWordPiece;
  spec.split = SplitPattern::kNone;
  spec.unk = text_member(model, "unk_token", "[UNK]", "model");
  spec.vocabulary =
      Vocabulary::read(object_of(required(model, "vocab", "model"), "model.vocab"), "model.vocab").tokens;
  if (std::find(spec.vocabulary.begin(), spec.vocabulary.end(), spec.unk) == spec.vocabulary.end())
    return false;
  name_usual_tokens(spec);
  return true;
}

// The arrangement of Llama-2 and similar models: spaces become U+2581, one is prepended, words are not split.
bool take_sentencepiece(json::object root, json::object model, TokenizerSpec& spec) {
  if (member(root, "pre_tokenizer") || !plain_bpe(model) || !flag(model, "byte_fallback", false, "model") ||
      flag(model, "ignore_merges", false, "model"))
    return false;
  const auto is = [&](std::string_view key, std::string_view wanted) {
    const auto e = member(root, key);
    return e && simdjson::minify(*e) == wanted;
  };
  if (!is("normalizer", R"({"type":"Sequence","normalizers":[{"type":"Prepend","prepend":"▁"},)"
                        R"({"type":"Replace","pattern":{"String":" "},"content":"▁"}]})") ||
      !is("decoder",
          R"({"type":"Sequence","decoders":[{"type":"Replace","pattern":{"String":"▁"},"content":" "},)"
          R"({"type":"ByteFallback"},{"type":"Fuse"},{"type":"Strip","content":" ","start":1,"stop":0}]})"))
    return false;
  std::vector<std::string> bytes;
  for (int b = 0; b < 256; ++b) bytes.push_back(fmt::format("<0x{:02X}>", b));
  const auto vocab = member(model, "vocab");
  json::object table;
  if (!vocab || vocab->get(table) || !has_all(table, bytes)) return false;
  if (const auto added = member(root, "added_tokens")) {
    for (const json::element e : array_of(*added, "added_tokens")) {
      const json::object o = object_of(e, "added_tokens");
      if (flag(o, "normalized", !flag(o, "special", false, "added_tokens"), "added_tokens")) return false;
    }
  }
  spec.form = SymbolForm::kSentencePiece;
  spec.split = SplitPattern::kNone;
  take_bpe(model, spec);
  return true;
}

// Everything else: a pipeline of the components themselves.
void take_components(json::object root, json::object model, PipelineParts parts,
                     std::unique_ptr<const PostProcessor> post_processor, TokenizerSpec& spec) {
  auto made = read_model(model);
  spec.form = SymbolForm::kComponents;
  spec.split = SplitPattern::kNone;
  spec.vocabulary = made->vocabulary().tokens;
  if (made->vocabulary().find(made->unknown_token()) >= 0) spec.unk = made->unknown_token();
  if (model_type(model) == "WordPiece") name_usual_tokens(spec);
  std::string identity;
  for (const char* key : {"normalizer", "pre_tokenizer", "model"})
    if (const auto e = member(root, key)) identity += simdjson::minify(*e);
  spec.pipeline = std::make_shared<const Pipeline>(std::move(parts), std::move(made),
                                                   std::move(post_processor), std::move(identity));
}

// What the post-processor adds before and after a text.
void take_surroundings(const PostProcessor& post_processor, TokenizerSpec& spec) {
  constexpr TokenId kText = -2;
  std::vector<EncodedToken> tokens{{kText, {0, 0}, {}}};
  post_processor.apply(tokens, true);
  bool seen = false;
  for (const EncodedToken& t : tokens) {
    require<DataError>(t.id != kText || !seen, "post_processor.single holds the text twice: not supported");
    if (t.id == kText)
      seen = true;
    else
      (seen ? spec.after : spec.before).push_back(t.id);
  }
  require<DataError>(seen, "post_processor.single does not hold the text");
  spec.pair = post_processor.pair();
}

}  // namespace

TokenizerSpec parse_tokenizer_json(std::string_view text, TokenizerForms forms) {
  json::parser parser;
  const json::object root = object_of(parse_json(parser, text, "tokenizer.json"), "tokenizer.json");
  only_keys(root,
            {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer",
             "post_processor", "decoder", "model"},
            "tokenizer.json");
  const std::string version = text_member(root, "version", "1.0", "tokenizer.json");
  require<DataError>(version == "1.0", "tokenizer.json has version {}, expected 1.0", version);
  check_batching(root);
  TokenizerSpec spec;
  PipelineParts parts = PipelineParts::read(root);
  const json::object model = object_of(required(root, "model", "tokenizer.json"), "model");
  const std::string type = model_type(model);
  const bool quick = forms == TokenizerForms::kQuickest;
  TokenizerSpec fresh = spec;
  const bool taken = quick && ((type == "BPE" && take_byte_level(root, model, parts, spec)) ||
                               (type == "BPE" && take_sentencepiece(root, model, spec = fresh)) ||
                               (type == "WordPiece" && take_wordpiece(root, model, spec = fresh)));
  std::size_t added = 0;
  if (const auto e = member(root, "added_tokens")) added = array_of(*e, "added_tokens").size();
  if (!taken) {
    spec = fresh;
    // The post-processor checks its ids against the vocabulary, which is parsed later: find its size now.
    std::size_t entries = 0;
    const json::element vocab = required(model, "vocab", "model");
    json::object table;
    json::array list;
    if (!vocab.get(table))
      entries = table.size();
    else if (!vocab.get(list))
      entries = list.size();
    std::unique_ptr<const PostProcessor> post_processor;
    if (const auto e = member(root, "post_processor"))
      post_processor = read_post_processor(object_of(*e, "post_processor"), entries + added);
    take_components(root, model, std::move(parts), std::move(post_processor), spec);
  }
  if (const auto e = member(root, "added_tokens")) {
    const std::size_t entries = spec.vocabulary.size() + added;
    for (const json::element item : array_of(*e, "added_tokens")) {
      AddedToken t = read_added_token(object_of(item, "added_tokens"), entries);
      if (!t.content.empty()) spec.added.push_back(std::move(t));  // the library leaves an empty one out
    }
  }
  if (const auto e = member(root, "post_processor")) {
    const auto post_processor =
        read_post_processor(object_of(*e, "post_processor"), spec.vocabulary.size() + added);
    take_surroundings(*post_processor, spec);
  }
  spec.original = {"tokenizer.json", std::string(text)};
  return spec;
}

}  // namespace stoa::token
