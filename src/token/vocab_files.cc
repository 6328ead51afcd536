// Reads vocab.json with merges.txt, whose class says how texts are cut, and BERT's vocab.txt.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "token/models/bpe_model.h"
#include "token/tokenizer_spec.h"

namespace stoa::token {
namespace {

// How the classes of transformers that read vocab.json and merges.txt cut texts and what they put around
// them.
struct ClassForm {
  std::string_view name;  // without "Fast"
  SplitPattern split;
  bool nfc, surrounds;  // surrounds: cls … sep
  // Contents of the special tokens that the class has without being told.
  std::string_view bos, eos, unk, cls, sep, pad, mask;
};

constexpr std::string_view kEndToken = "<|endoftext|>";
constexpr SplitPattern kWords = SplitPattern::kGpt2;
constexpr ClassForm roberta_form(std::string_view name) {
  return {name, kWords, false, true, "<s>", "</s>", "<unk>", "<s>", "</s>", "<pad>", "<mask>"};
}
constexpr ClassForm kClassForms[] = {
    {"GPT2Tokenizer", kWords, false, false, kEndToken, kEndToken, kEndToken, "", "", "", ""},
    {"CodeGenTokenizer", kWords, false, false, kEndToken, kEndToken, kEndToken, "", "", "", ""},
    {"Qwen2Tokenizer", SplitPattern::kQwen2, true, false, "", kEndToken, kEndToken, "", "", kEndToken, ""},
    {"DebertaTokenizer", kWords, false, true, "[CLS]", "[SEP]", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]"},
    roberta_form("RobertaTokenizer"),
    roberta_form("BartTokenizer"),
    roberta_form("LongformerTokenizer"),
    roberta_form("LEDTokenizer"),
    roberta_form("MvpTokenizer")};

constexpr std::string_view kClipSplit =
    R"re(<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)re";

Vocabulary read_vocab_json(std::string_view text) {
  json::parser parser;
  return Vocabulary::read(object_of(parse_json(parser, text, "vocab.json"), "vocab.json"), "vocab.json");
}

template <class F>
void each_line(std::string_view text, F&& f) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    while (line.ends_with('\r')) line.remove_suffix(1);
    f(line);
  }
}

template <class F>
void each_merge(std::string_view merges_text, F&& f) {
  each_line(merges_text, [&](std::string_view line) {
    if (!line.starts_with("#version") && !line.empty()) f(line);
  });
}

// CLIP: the components that transformers puts together for it.
TokenizerSpec clip_spec(std::string_view vocab_text, std::string_view merges_text,
                        const TokenizerClass& how) {
  using OrderedJson = nlohmann::ordered_json;
  OrderedJson vocab = OrderedJson::parse(vocab_text, nullptr, false);
  require<DataError>(vocab.is_object(), "vocab.json is not a JSON object");
  const std::string bos = how.bos.empty() ? "<|startoftext|>" : how.bos;
  const std::string eos = how.eos.empty() ? std::string(kEndToken) : how.eos;
  const std::string unk = how.unk.empty() ? std::string(kEndToken) : how.unk;
  const auto pair = [&](const std::string& token) {
    require<DataError>(vocab.contains(token), "vocab.json has no token '{}'", token);
    return OrderedJson::array({token, vocab[token]});
  };
  OrderedJson merges = OrderedJson::array(), added = OrderedJson::array();
  each_merge(merges_text, [&](std::string_view line) { merges.push_back(line); });
  for (const std::string& token : {bos, eos}) {
    const OrderedJson entry = {
        {"id", pair(token)[1]}, {"content", token}, {"special", true}, {"normalized", false}};
    if (added.empty() || added[0] != entry) added.push_back(entry);
  }
  const OrderedJson file = {
      {"version", "1.0"},
      {"added_tokens", added},
      {"normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         OrderedJson::array(
             {OrderedJson{{"type", "NFC"}},
              OrderedJson{{"type", "Replace"}, {"pattern", {{"Regex", "\\s+"}}}, {"content", " "}},
              OrderedJson{{"type", "Lowercase"}}})}}},
      {"pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers", OrderedJson::array({OrderedJson{{"type", "Split"},
                                                          {"pattern", {{"Regex", kClipSplit}}},
                                                          {"behavior", "Removed"},
                                                          {"invert", true}},
                                              OrderedJson{{"type", "ByteLevel"},
                                                          {"add_prefix_space", false},
                                                          {"trim_offsets", true},
                                                          {"use_regex", true}}})}}},
      {"post_processor",
       {{"type", "RobertaProcessing"},
        {"sep", pair(eos)},
        {"cls", pair(bos)},
        {"trim_offsets", false},
        {"add_prefix_space", false}}},
      // The class makes the end of a word a blank and strips the text.
      {"decoder",
       {{"type", "Sequence"},
        {"decoders",
         OrderedJson::array(
             {OrderedJson{{"type", "ByteLevel"},
                          {"add_prefix_space", true},
                          {"trim_offsets", true},
                          {"use_regex", true}},
              OrderedJson{{"type", "Replace"}, {"pattern", {{"String", "</w>"}}}, {"content", " "}},
              OrderedJson{
                  {"type", "Replace"}, {"pattern", {{"Regex", "\\A\\s+|\\s+\\z"}}}, {"content", ""}}})}}},
      {"model",
       {{"type", "BPE"},
        {"unk_token", unk},
        {"end_of_word_suffix", "</w>"},
        {"vocab", std::move(vocab)},
        {"merges", std::move(merges)}}}};
  TokenizerSpec spec = parse_tokenizer_json(file.dump());
  spec.bos = bos, spec.eos = eos, spec.unk = unk;
  return spec;
}

}  // namespace

TokenizerSpec parse_vocab_merges(std::string_view vocab_text, std::string_view merges_text,
                                 const TokenizerClass& how) {
  std::string name = how.name;
  if (name.ends_with("Fast") && name != "PreTrainedTokenizerFast") name.resize(name.size() - 4);
  if (name == "CLIPTokenizer") return clip_spec(vocab_text, merges_text, how);
  const ClassForm* form = &kClassForms[0];
  // The class of whoever saves files says nothing of how a vocab.json is used.
  const bool named = !name.empty() && name != "PreTrainedTokenizerFast" && name != "TokenizersBackend";
  if (named) {
    form = std::find_if(std::begin(kClassForms), std::end(kClassForms),
                        [&](const ClassForm& f) { return f.name == name; });
    require<DataError>(
        form != std::end(kClassForms),
        "tokenizer_class is {}: how it uses vocab.json and merges.txt is unknown, and a wrong guess would "
        "silently give wrong ids; a tokenizer.json in the same directory would be read",
        how.name);
  }
  TokenizerSpec spec;
  const Vocabulary vocabulary = read_vocab_json(vocab_text);
  MergeReader merges(vocabulary, 0);
  each_merge(merges_text, [&](std::string_view line) { merges.add_line(line); });
  spec.merges = merges.take();
  spec.split = form->split;
  spec.nfc = form->nfc;
  spec.add_prefix_space = how.add_prefix_space.value_or(false);
  const std::tuple<const std::string&, std::string_view, std::string*> roles[] = {
      {how.bos, form->bos, &spec.bos},   {how.eos, form->eos, &spec.eos}, {how.unk, form->unk, &spec.unk},
      {how.cls, form->cls, &spec.cls},   {how.sep, form->sep, &spec.sep}, {how.pad, form->pad, &spec.pad},
      {how.mask, form->mask, &spec.mask}};
  for (const auto& [given, usual, role] : roles) {
    const std::string token = given.empty() ? std::string(usual) : given;
    const TokenId id = vocabulary.find(token);
    if (token.empty() || id < 0) continue;
    *role = token;
    const bool seen = std::any_of(spec.added.begin(), spec.added.end(),
                                  [&](const AddedToken& t) { return t.content == token; });
    // A mask swallows the blank before it: it stands for a word with its blank.
    if (!seen)
      spec.added.push_back({.id = id, .content = token, .lstrip = role == &spec.mask && form->surrounds});
  }
  if (form->surrounds) {
    for (const auto& [token, side] :
         {std::pair{&spec.cls, &spec.before}, std::pair{&spec.sep, &spec.after}}) {
      require<DataError>(!token->empty(), "{} puts tokens around a text that vocab.json does not have",
                         how.name);
      side->push_back(vocabulary.find(*token));
    }
    spec.pair = {spec.before, spec.after, spec.after};
    if (form->cls == "<s>") spec.pair->between.push_back(spec.after.front());  // RoBERTa: </s></s>
  }
  spec.vocabulary = vocabulary.tokens;
  return spec;
}

TokenizerSpec parse_vocab_txt(std::string_view text) {
  TokenizerSpec spec;
  spec.form = SymbolForm::kWordPiece;
  spec.split = SplitPattern::kNone;
  std::unordered_map<std::string_view, TokenId> lookup;
  each_line(text, [&](std::string_view line) {
    const auto id = static_cast<TokenId>(spec.vocabulary.size());
    require<DataError>(simdjson::validate_utf8(line.data(), line.size()),
                       "vocab.txt, line {}: the token is not UTF-8 text", id + 1);
    if (!line.empty())
      require<DataError>(lookup.emplace(line, id).second, "vocab.txt has token '{}' twice (line {})", line,
                         id + 1);
    spec.vocabulary.emplace_back(line);
  });
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
    spec.before = {lookup.at("[CLS]")}, spec.after = {lookup.at("[SEP]")},
    spec.pair = {spec.before, spec.after, spec.after};
  return spec;
}

}  // namespace stoa::token
