#include "infer/labelled_rows.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "data/number_label.h"

namespace stoa::infer {

using data::LabelledRow, data::LabelledSource;

namespace {

token::TokenId needed(std::optional<token::TokenId> id, const char* name) {
  require<ConfigError>(id.has_value(),
                       "the tokenizer has no {} token, which labelled rows need; name one in its "
                       "tokenizer_config.json (cls_token, sep_token)",
                       name);
  return *id;
}

// How many tokens are kept of two texts that share `room`: the longer is shortened first, as by Hugging
// Face's longest_first.
std::pair<std::int64_t, std::int64_t> share(std::int64_t a, std::int64_t b, std::int64_t room) {
  if (a + b <= room) return {a, b};
  const std::int64_t half = room / 2;
  if (a <= half) return {a, room - a};
  if (b <= half) return {room - b, b};
  return a <= b ? std::pair(half, room - half) : std::pair(room - half, half);
}

}  // namespace

RowEncoder::RowEncoder(const token::Tokenizer& tokenizer, const model::ModelConfig& config,
                       std::int64_t longest, std::int64_t vocabulary)
    : tokenizer_(tokenizer),
      task_(config.task),
      decoder_(config.kind == model::ModelKind::kGpt),
      typed_(config.kind == model::ModelKind::kBert && config.bert.num_token_types > 1),
      longest_(longest),
      virtual_(static_cast<std::size_t>(config.peft.virtual_count())),
      blank_before_words_(tokenizer.spec().form == token::SymbolForm::kByteLevel) {
  require<ConfigError>(longest >= 8, "rows of {} tokens; expected 8 or more", longest);
  require<ConfigError>(longest >= 8 + std::ssize(virtual_),
                       "rows of {} tokens have no room for texts behind {} virtual tokens", longest,
                       virtual_.size());
  std::iota(virtual_.begin(), virtual_.end(), static_cast<token::TokenId>(vocabulary));
  const token::TokenizerSpec& spec = tokenizer.spec();
  if (decoder_) {
    before_ = spec.before, after_ = spec.after;
    around_ = spec.pair.value_or(token::PairSurroundings{before_, {}, after_});
    return;
  }
  const std::vector<token::TokenId> cls{needed(tokenizer.cls_id(), "[CLS]")},
      sep{needed(tokenizer.sep_id(), "[SEP]")};
  before_ = cls, after_ = sep;
  // Files that put nothing around texts, or do not begin with [CLS], belong to no encoder's checkpoint.
  if (const auto& said = spec.pair; said && said->before == cls && !said->between.empty())
    around_ = *said;
  else
    around_ = {cls, blank_before_words_ ? std::vector{sep[0], sep[0]} : sep, sep};
}

std::vector<token::TokenId> RowEncoder::ids_of(const std::string& text) const {
  return tokenizer_.encode(text, {.plain = false, .add_special = false});
}

token::Encoding RowEncoder::with_offsets(const std::string& text) {
  if (offsets_ == nullptr) offsets_ = std::make_unique<token::OffsetEncoder>(tokenizer_);
  token::Encoding out;
  offsets_->encode(text, {.plain = false, .add_special = false}, out);
  return out;
}

void RowEncoder::add(LabelledRow& row, std::span<const token::TokenId> ids, std::int32_t type) const {
  row.tokens.insert(row.tokens.end(), ids.begin(), ids.end());
  row.token_types.resize(row.tokens.size(), typed_ ? type : 0);
}

LabelledRow RowEncoder::pair(std::span<const token::TokenId> a, std::span<const token::TokenId> b) const {
  LabelledRow row;
  add(row, virtual_, 0);
  add(row, around_.before, 0);
  add(row, a, 0);
  add(row, around_.between, 0);
  add(row, b, 1);
  add(row, around_.after, 1);
  return row;
}

LabelledRow RowEncoder::text(const data::LabelledText& text, const LabelledSource& source) const {
  const std::vector<token::TokenId> a = ids_of(text.text),
                                    b = text.pair ? ids_of(*text.pair) : std::vector<token::TokenId>();
  const std::int64_t around = text.pair ? tokens_around_pair() : std::ssize(before_) + std::ssize(after_);
  const auto [of_a, of_b] = share(std::ssize(a), std::ssize(b), longest_ - std::ssize(virtual_) - around);
  const auto kept = std::span(a).first(static_cast<std::size_t>(of_a));
  LabelledRow row;
  if (text.pair) {
    row = pair(kept, std::span(b).first(static_cast<std::size_t>(of_b)));
  } else {
    add(row, virtual_, 0);
    add(row, before_, 0);
    add(row, kept, 0);
    add(row, after_, 0);
  }
  row.file = source.file, row.line = source.line;
  require<DataError>(!row.tokens.empty(), "{} line {}: an empty text", source.file, source.line);
  if (text.label)
    row.labels.push_back({text_token(row), task_.regression()
                                               ? data::label_of_number(static_cast<float>(
                                                     data::target_number(*text.label, source)))
                                               : data::label_number(*text.label, task_.labels, source)});
  return row;
}

std::int32_t RowEncoder::text_token(const LabelledRow& row) const {
  return decoder_ ? static_cast<std::int32_t>(row.tokens.size()) - 1 : 0;
}

RowEncoder::Words RowEncoder::words(const data::LabelledWords& words, const LabelledSource& source) const {
  Words out;
  out.row.file = source.file, out.row.line = source.line;
  out.first.assign(words.words.size(), -1);
  add(out.row, virtual_, 0);
  add(out.row, before_, 0);
  for (std::size_t w = 0; w < words.words.size(); ++w) {
    const auto ids = ids_of(blank_before_words_ ? " " + words.words[w] : words.words[w]);
    const auto begin = static_cast<std::int32_t>(out.row.tokens.size());
    const auto room = static_cast<std::size_t>(longest_ - std::ssize(after_) - begin);
    if (room == 0) break;
    add(out.row, std::span(ids).first(std::min(ids.size(), room)), 0);
    if (ids.empty()) continue;
    out.first[w] = begin;
    if (!words.tags.empty())
      out.row.labels.push_back({begin, data::label_number(words.tags[w], task_.labels, source)});
  }
  add(out.row, after_, 0);
  require<DataError>(!out.row.tokens.empty(), "{} line {}: no words", source.file, source.line);
  return out;
}

}  // namespace stoa::infer
