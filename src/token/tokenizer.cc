#include "token/tokenizer.h"

#include <algorithm>
#include <charconv>

#include "base/checksum.h"
#include "base/error.h"
#include "base/file.h"
#include "token/encoder.h"
#include "token/sentencepiece.h"
#include "token/tokenizer_data.h"

namespace stoa::token {
namespace {

// Canonical bytes for the fingerprint: numbers in decimal, strings with their length.
class Canonical {
 public:
  void add(std::string_view text) {
    add(static_cast<std::int64_t>(text.size()));
    text_.append(text);
  }
  void add(std::int64_t number) { text_ += std::to_string(number) + ' '; }
  std::string digest() const { return checksum_text(checksum(std::string_view(text_))); }

 private:
  std::string text_;
};

std::string fingerprint_of(const TokenizerSpec& spec, std::vector<AddedToken> added) {
  Canonical c;
  for (std::size_t id = 0; id < spec.vocabulary.size(); ++id) {
    if (spec.vocabulary[id].empty()) continue;
    c.add(static_cast<std::int64_t>(id));
    c.add(spec.vocabulary[id]);
  }
  c.add("merges");
  for (const Merge& m : spec.merges) c.add(m.left), c.add(m.right);
  if (spec.form == SymbolForm::kSentencePiece) c.add("sentencepiece");
  if (spec.form == SymbolForm::kWordPiece) {
    const WordPieceOptions& w = spec.wordpiece;
    c.add("wordpiece"), c.add(w.prefix), c.add(w.max_characters);
    for (const bool flag :
         {w.clean_text, w.handle_chinese_chars, w.strip_accents.value_or(w.lowercase), w.lowercase})
      c.add(flag ? 1 : 0);
  }
  if (spec.form == SymbolForm::kModel) c.add(spec.model->model());
  if (spec.form == SymbolForm::kComponents) c.add(spec.pipeline->identity());
  if (spec.split == SplitPattern::kOther) c.add(spec.cutter_identity);
  if (spec.rank_by_result) c.add("ranks");
  c.add(name(spec.split));
  for (const bool flag : {spec.add_prefix_space, spec.ignore_merges, spec.nfc}) c.add(flag ? 1 : 0);
  std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  for (const AddedToken& t : added) {
    c.add(t.id), c.add(t.content);
    // Without a normalizer `normalized` changes no id, and files written by different programs differ in it.
    for (const bool flag : {t.special, t.single_word, t.lstrip, t.rstrip,
                            t.normalized && (spec.nfc || spec.form == SymbolForm::kWordPiece ||
                                             spec.form == SymbolForm::kComponents)})
      c.add(flag ? 1 : 0);
  }
  return c.digest();
}

}  // namespace

// As Hugging Face decodes: through the byte alphabet where every character belongs to it.
std::string Tokenizer::Data::decoded(std::string_view token) const {
  if (spec.form == SymbolForm::kByteLevel) return alphabet.to_bytes(token).value_or(std::string(token));
  if (spec.form == SymbolForm::kComponents) return std::string(token);
  if (wordpiece) return wordpiece->decoded(token, false);
  if (token.size() == 6 && token.starts_with("<0x") && token[5] == '>') {
    unsigned byte = 0;
    const auto [end, error] = std::from_chars(token.data() + 3, token.data() + 5, byte, 16);
    if (error == std::errc() && end == token.data() + 5) return std::string(1, static_cast<char>(byte));
  }
  std::string out;
  for (std::size_t at = 0; at < token.size();) {
    const bool space = token.substr(at).starts_with(kSpaceSymbol);
    out.push_back(space ? ' ' : token[at]);
    at += space ? kSpaceSymbol.size() : 1;
  }
  return out;
}

std::string_view Tokenizer::Data::normalized(std::string_view text, std::string& storage) const {
  if (spec.nfc) return normalize_nfc(text, splitter.classes(), storage);
  if (spec.pipeline) return storage = spec.pipeline->normalized(text);
  if (!wordpiece) return text;
  wordpiece->normalize(text, storage);
  return storage;
}

std::string_view Tokenizer::Data::component_bytes(std::size_t id) const {
  std::call_once(component_bytes_made_, [&] {
    // Behind another token: decoders treat the first of a text in a way of its own.
    static constexpr std::string_view kBefore = "a";
    component_bytes_.resize(bytes.size());
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i].empty()) continue;
      std::string text = spec.pipeline->decoded({std::string(kBefore), bytes[i]});
      if (text.starts_with(kBefore)) text.erase(0, kBefore.size());
      component_bytes_[i] = std::move(text);
    }
  });
  return component_bytes_[id];
}

Tokenizer::Data::Data(TokenizerSpec given) : spec(std::move(given)), splitter(spec.split) {
  const auto& vocabulary = spec.vocabulary;
  require<DataError>(!vocabulary.empty(), "the vocabulary is empty");
  ids.reserve(vocabulary.size());
  bytes.resize(vocabulary.size());
  for (std::size_t id = 0; id < vocabulary.size(); ++id) {
    const std::string& token = vocabulary[id];
    if (token.empty()) continue;
    const bool fresh = ids.insert_or_assign(token, static_cast<TokenId>(id)).second;
    require<DataError>(fresh || spec.form == SymbolForm::kComponents,
                       "token '{}' appears twice in the vocabulary", token);
  }
  if (spec.form == SymbolForm::kWordPiece) {
    const auto unknown = ids.find(spec.unk);
    require<DataError>(unknown != ids.end(), "the vocabulary has no unknown token '{}'", spec.unk);
    wordpiece = std::make_unique<const WordPiece>(spec.wordpiece, ids, unknown->second);
  } else if (spec.form != SymbolForm::kModel && spec.form != SymbolForm::kComponents) {
    byte_ids.resize(256);
  }
  for (std::size_t id = 0; id < vocabulary.size(); ++id)
    if (!vocabulary[id].empty()) bytes[id] = decoded(vocabulary[id]);
  for (int b = 0; b < static_cast<int>(byte_ids.size()); ++b) {
    std::string symbol;
    if (spec.form == SymbolForm::kByteLevel) {
      append_utf8(alphabet.symbol(static_cast<std::uint8_t>(b)), symbol);
    } else {
      symbol = fmt::format("<0x{:02X}>", b);
    }
    const auto found = ids.find(symbol);
    const bool never = spec.form == SymbolForm::kByteLevel && (b == 0xC0 || b == 0xC1 || b >= 0xF5);
    require<DataError>(found != ids.end() || never,
                       "the vocabulary has no token for byte {} ('{}'): some text could not be encoded", b,
                       symbol);
    byte_ids[static_cast<std::size_t>(b)] = found == ids.end() ? -1 : found->second;
    lacks_bytes = lacks_bytes || found == ids.end();
  }
  const auto size = static_cast<TokenId>(vocabulary.size());
  for (const Merge& m : spec.merges) {
    for (const TokenId id : {m.left, m.right, m.result}) {
      require<DataError>(id >= 0 && id < size && !vocabulary[static_cast<std::size_t>(id)].empty(),
                         "a merge names token id {}, which the vocabulary does not have", id);
    }
  }
  if (!byte_ids.empty())
    bpe = std::make_unique<const Bpe>(byte_ids, spec.merges,
                                      spec.rank_by_result ? Bpe::Rank::kResult : Bpe::Rank::kOrder);
  if (spec.ignore_merges && spec.form == SymbolForm::kByteLevel) {
    for (std::size_t id = 0; id < bytes.size(); ++id) {
      if (!vocabulary[id].empty() && alphabet.to_bytes(vocabulary[id])) {
        whole_words.emplace(bytes[id], static_cast<TokenId>(id));
      }
    }
  }

  std::string storage;
  for (const AddedToken& t : spec.added) {
    require<DataError>(t.id >= 0, "added token '{}' has no id", t.content);
    const auto id = static_cast<std::size_t>(t.id);
    if (id >= bytes.size()) bytes.resize(id + 1);
    if (id >= special.size()) special.resize(id + 1);
    const auto known = ids.find(t.content);
    require<DataError>(known == ids.end() || known->second == t.id,
                       "added token '{}' has id {}, but the vocabulary has it as {}", t.content, t.id,
                       known == ids.end() ? -1 : known->second);
    require<DataError>(known != ids.end() || id >= vocabulary.size() || vocabulary[id].empty(),
                       "added token '{}' has id {}, which the vocabulary gives to '{}'", t.content, t.id,
                       id < vocabulary.size() ? vocabulary[id] : "");
    const bool fresh = added_ids.emplace(t.content, t.id).second;
    require<DataError>(fresh, "added token '{}' appears twice", t.content);
    std::string_view pattern = t.content;
    if (t.normalized) pattern = normalized(pattern, storage);
    bytes[id] = decoded(pattern);
    special[id] = t.special;
    (t.normalized ? normalized_finder : raw_finder).add(t, pattern);
  }
  special.resize(bytes.size());

  const auto id_of = [this](const std::string& token) -> std::optional<TokenId> {
    if (const auto it = added_ids.find(token); it != added_ids.end()) return it->second;
    if (const auto it = ids.find(token); it != ids.end()) return it->second;
    return std::nullopt;
  };
  const auto named = [&](const std::string& token, std::string_view role) {
    const auto id = token.empty() ? std::nullopt : id_of(token);
    require<DataError>(token.empty() || id, "the {} '{}' is not in the vocabulary", role, token);
    return id;
  };
  bos = named(spec.bos, "bos token"), eos = named(spec.eos, "eos token");
  pad = named(spec.pad, "pad token"), unk = named(spec.unk, "unk token");
  cls = named(spec.cls, "cls token"), sep = named(spec.sep, "sep token"),
  mask = named(spec.mask, "mask token");
  eod = eos;
  for (const char* usual : {"<|endoftext|>", "</s>", "<|end_of_text|>"}) {
    if (!eod) eod = id_of(usual);
  }
  const PairSurroundings pair = spec.pair.value_or(PairSurroundings{});
  for (const auto& around : {spec.before, spec.after, pair.before, pair.between, pair.after}) {
    for (const TokenId id : around) {
      require<DataError>(id >= 0 && static_cast<std::size_t>(id) < bytes.size(),
                         "the post-processor names token id {}, the vocabulary ends at {}", id,
                         bytes.size() - 1);
    }
  }
  fingerprint = fingerprint_of(spec, spec.added);
}

Tokenizer::Tokenizer(TokenizerSpec spec) : data_(std::make_shared<const Data>(std::move(spec))) {}

Tokenizer Tokenizer::from_json(std::string_view json) { return Tokenizer(parse_tokenizer_json(json)); }

std::vector<TokenId> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<TokenId> ids;
  Encoder(*this, Encoder::Cache::kNone).encode(text, options, ids);
  return ids;
}

std::string_view Tokenizer::token_bytes(TokenId id) const {
  require<DataError>(id >= 0 && id < vocab_size(), "token id {} is outside the vocabulary of {}", id,
                     vocab_size());
  const auto index = static_cast<std::size_t>(id);
  return data_->spec.pipeline ? data_->component_bytes(index) : std::string_view(data_->bytes[index]);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, DecodeOptions options) const {
  if (data_->spec.pipeline) {
    std::vector<std::string> tokens;
    for (const TokenId id : ids) {
      require<DataError>(id >= 0 && id < vocab_size(), "token id {} is outside the vocabulary of {}", id,
                         vocab_size());
      const std::string& token = data_->bytes[static_cast<std::size_t>(id)];
      if (!token.empty() && !(options.skip_special && is_special(id))) tokens.push_back(token);
    }
    return data_->spec.pipeline->decoded(std::move(tokens));
  }
  std::string out;
  for (const TokenId id : ids) {
    const std::string_view bytes = token_bytes(id);
    if (options.skip_special && is_special(id)) continue;
    if (data_->wordpiece && out.empty())
      out = data_->wordpiece->decoded(id_to_token(id), true);
    else
      out.append(bytes);
  }
  // The space that encoding put in front.
  const TokenizerSpec& spec = data_->spec;
  const bool spaces =
      spec.form == SymbolForm::kSentencePiece || (spec.model && spec.model->drops_first_blank());
  if (spaces && out.starts_with(' ')) out.erase(0, 1);
  return out;
}

std::int64_t Tokenizer::vocab_size() const { return static_cast<std::int64_t>(data_->bytes.size()); }

std::optional<TokenId> Tokenizer::token_to_id(std::string_view token) const {
  if (const auto it = data_->added_ids.find(token); it != data_->added_ids.end()) return it->second;
  if (const auto it = data_->ids.find(token); it != data_->ids.end()) return it->second;
  return std::nullopt;
}

std::string Tokenizer::id_to_token(TokenId id) const {
  for (const AddedToken& t : data_->spec.added) {
    if (t.id == id) return t.content;
  }
  const auto index = static_cast<std::size_t>(id);
  return id >= 0 && index < data_->spec.vocabulary.size() ? data_->spec.vocabulary[index] : std::string();
}

std::vector<TokenId> Tokenizer::sentinel_ids() const {
  std::vector<TokenId> out;
  while (const auto id = token_to_id(fmt::format("<extra_id_{}>", out.size()))) out.push_back(*id);
  return out;
}

bool Tokenizer::is_special(TokenId id) const {
  return id >= 0 && id < vocab_size() && data_->special[static_cast<std::size_t>(id)];
}

std::span<const AddedToken> Tokenizer::added_tokens() const { return data_->spec.added; }
std::optional<TokenId> Tokenizer::bos_id() const { return data_->bos; }
std::optional<TokenId> Tokenizer::eos_id() const { return data_->eos; }
std::optional<TokenId> Tokenizer::pad_id() const { return data_->pad; }
std::optional<TokenId> Tokenizer::unk_id() const { return data_->unk; }
std::optional<TokenId> Tokenizer::cls_id() const { return data_->cls; }
std::optional<TokenId> Tokenizer::sep_id() const { return data_->sep; }
std::optional<TokenId> Tokenizer::mask_id() const { return data_->mask; }
bool Tokenizer::continues_word(TokenId id) const {
  const auto index = static_cast<std::size_t>(id);
  return data_->wordpiece && id >= 0 && index < data_->spec.vocabulary.size() &&
         data_->spec.vocabulary[index].starts_with(data_->spec.wordpiece.prefix);
}
std::optional<TokenId> Tokenizer::eod_id() const { return data_->eod; }
const std::string& Tokenizer::fingerprint() const { return data_->fingerprint; }
const std::string& Tokenizer::chat_template() const {
  const TokenizerSpec& s = spec();
  return s.chat_template.empty() && !s.more_templates.empty() ? s.more_templates.begin()->second
                                                              : s.chat_template;
}
const std::string& Tokenizer::tool_template() const {
  const auto own = spec().more_templates.find("tool_use");
  return own == spec().more_templates.end() ? chat_template() : own->second;
}
const TokenizerSpec& Tokenizer::spec() const { return data_->spec; }

}  // namespace stoa::token
