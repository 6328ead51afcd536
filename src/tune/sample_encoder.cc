#include "tune/sample_encoder.h"

#include <algorithm>

#include "base/error.h"
#include "infer/chat_session.h"
#include "tune/record_fields.h"
#include "tune/token_offsets.h"

namespace stoa::tune {
namespace {

// Templates that print the date print this one: a sample is the same whenever it is made.
std::tm fixed_date() {
  std::tm date{};
  date.tm_year = 2024 - 1900;
  date.tm_mon = 6;
  date.tm_mday = 26;
  date.tm_wday = 5;
  date.tm_yday = 207;
  return date;
}

std::vector<token::TokenId> ids_of(token::Encoder& encoder, std::string_view text,
                                   token::EncodeOptions options) {
  std::vector<token::TokenId> ids;
  encoder.encode(text, options, ids);
  return ids;
}

constexpr token::EncodeOptions kRendered{.plain = false, .add_special = false};  // a template adds its own
constexpr token::EncodeOptions kRunningText{.plain = false, .add_special = true};

}  // namespace

std::int64_t EncodedText::trained_tokens() const {
  return tokens.empty() ? 0 : std::count(trained.begin() + 1, trained.end(), 1);
}

EncodingCounts& EncodingCounts::operator+=(const EncodingCounts& other) {
  shortened += other.shortened;
  split += other.split;
  too_long += other.too_long;
  untrained += other.untrained;
  rewritten += other.rewritten;
  other_header += other.other_header;
  return *this;
}

ChatText chat_text(const token::Tokenizer& tokenizer) {
  ChatText out;
  out.chat_template = infer::chat_template_of(tokenizer);
  infer::name_special_tokens(tokenizer, out.variables);
  return out;
}

SampleEncoder::SampleEncoder(const token::Tokenizer& tokenizer, const ChatText& text, std::int64_t longest)
    : tokenizer_(tokenizer), text_(text), longest_(longest), encoder_(tokenizer) {}

void SampleEncoder::encode(const Record& record, std::int64_t number, std::vector<EncodedSample>& out) {
  std::vector<EncodedText> texts = encode(record.text, record.place);
  if (record.rejected) {
    std::vector<EncodedText> others = encode(*record.rejected, record.place);
    require<DataError>(texts.size() == 1 && others.size() == 1,
                       "{}: an answer of the pair has no trained token", record.place.text());
    EncodedSample pair{std::move(texts[0]), std::move(others[0]), {}, number, record.margin};
    if (pair.size() > longest_)
      ++counts_.too_long;
    else
      out.push_back(std::move(pair));
    return;
  }
  if (record.score) {  // of the whole text
    if (texts.empty()) return;
    if (texts.back().size() > longest_)
      ++counts_.too_long;
    else
      out.push_back({std::move(texts.back()), {}, {}, number, 0, record.score});
    return;
  }
  for (EncodedText& text : texts) {
    if (record.form == RecordForm::kText) {
      add_text(std::move(text), number, out);
    } else if (shorten(text)) {
      out.push_back({std::move(text), {}, record.desirable, number});
    }
  }
}

std::vector<EncodedText> SampleEncoder::encode(const Answered& text, const Place& place) {
  if (const auto* chat = std::get_if<Conversation>(&text)) return encode_chat(*chat, place);
  std::vector<EncodedText> out;
  out.push_back(encode_plain(std::get<Continuation>(text), place));
  return out;
}

std::string SampleEncoder::render(const Conversation& chat, std::size_t messages, bool prompt,
                                  std::vector<Span>* generated) const {
  chat::RenderOptions options;
  options.add_generation_prompt = prompt;
  options.variables = text_.variables;
  options.now = fixed_date();
  if (!chat.tools.is_null()) options.variables["tools"] = chat.tools;
  Json list = Json::array();
  for (std::size_t i = 0; i < messages; ++i) list.push_back(chat.messages[i]);
  return text_.chat_template->render(list, options, generated);
}

std::vector<EncodedText> SampleEncoder::encode_chat(const Conversation& chat, const Place& place) {
  require<DataError>(text_.chat_template.has_value(),
                     "{}: a chat needs a chat template, and the tokenizer has none; name one that is added, "
                     "for example --template chatml (model.data.chat_template=chatml)",
                     place.text());
  std::vector<std::size_t> answers;  // trained messages
  for (std::size_t i = 0; i < chat.trained.size(); ++i)
    if (chat.trained[i]) answers.push_back(i);
  if (answers.empty()) {
    ++counts_.untrained;
    return {};
  }
  try {
    return text_.chat_template->marks_generation() ? encode_by_blocks(chat, answers, place)
                                                   : encode_by_prefixes(chat, answers, place);
  } catch (const chat::TemplateError& error) {
    fail<DataError>("{}: {}", place.text(), error.what());
  }
}

// What follows the last answer trains nothing and is left out, here and below.
std::vector<EncodedText> SampleEncoder::encode_by_blocks(const Conversation& chat,
                                                         const std::vector<std::size_t>& answers,
                                                         const Place& place) {
  std::vector<Span> marked, spans;
  const std::size_t messages = answers.back() + 1;
  const std::string text = render(chat, messages, false, &marked);
  check_tools(chat, text, place);
  std::vector<bool> trained;  // by answer
  for (std::size_t i = 0; i < messages; ++i)
    if (chat.messages[i]["role"] == "assistant") trained.push_back(chat.trained[i]);
  if (std::find(trained.begin(), trained.end(), false) == trained.end()) {
    // An answer may be several blocks, such as its text and the token that ends it.
    for (const Span& span : marked) {
      const bool joined = !spans.empty() && spans.back().end == span.begin;
      if (joined)
        spans.back().end = span.end;
      else if (span.begin < span.end)
        spans.push_back(span);
    }
  } else {
    require<DataError>(marked.size() == trained.size(),
                       "{}: the template marks {} answers with {{% generation %}}, the chat has {}: those of "
                       "weight 0 cannot be told",
                       place.text(), marked.size(), trained.size());
    for (std::size_t i = 0; i < trained.size(); ++i)
      if (trained[i]) spans.push_back(marked[i]);
  }
  require<DataError>(!spans.empty(), "{}: the template marks no answer with {{% generation %}}",
                     place.text());
  std::vector<EncodedText> out;
  out.push_back(encode_spans(text, spans, place));
  return out;
}

// Where a text that ends with an answer ends in the text of the whole chat; 0: it is not its beginning. Some
// templates (Phi-3) put the end of the text behind the last turn, whichever that is.
std::size_t SampleEncoder::end_within(const std::string& whole, const std::string& part) const {
  if (whole.starts_with(part)) return part.size();
  const auto found = text_.variables.find("eos_token");
  if (found == text_.variables.end()) return 0;
  const auto& eos = found->get_ref<const std::string&>();
  if (!part.ends_with(eos)) return 0;
  const std::string_view before = std::string_view(part).substr(0, part.size() - eos.size());
  return whole.starts_with(before) ? before.size() : 0;
}

std::vector<EncodedText> SampleEncoder::encode_by_prefixes(const Conversation& chat,
                                                           const std::vector<std::size_t>& answers,
                                                           const Place& place) {
  const std::string text = render(chat, answers.back() + 1, false);
  check_tools(chat, text, place);
  std::vector<std::string> texts;  // up to and with each answer
  std::vector<Span> spans;
  bool whole = true;
  for (const std::size_t i : answers) {
    texts.push_back(i == answers.back() ? text : render(chat, i + 1, false));
    const std::size_t begin = answer_begin(chat, i, texts.back(), place);
    const std::size_t end = end_within(text, texts.back());
    whole = whole && end > begin;
    spans.push_back({begin, end > begin ? end : texts.back().size()});
  }
  std::vector<EncodedText> out;
  if (whole) {
    out.push_back(encode_spans(text, spans, place));
    return out;
  }
  ++counts_.rewritten;
  for (std::size_t i = 0; i < texts.size(); ++i)
    out.push_back(encode_spans(texts[i], {{spans[i].begin, texts[i].size()}}, place));
  return out;
}

// An answer begins behind the generation prompt. Templates of reasoning models may begin an answer that has
// no reasoning otherwise than the generation prompt does: then where the two part, behind what both have
// beyond the chat before.
std::size_t SampleEncoder::answer_begin(const Conversation& chat, std::size_t message,
                                        const std::string& after, const Place& place) {
  const std::string before = render(chat, message, true);
  if (after.starts_with(before)) return before.size();
  const std::string earlier = render(chat, message, false);
  auto common = static_cast<std::size_t>(
      std::mismatch(before.begin(), before.end(), after.begin(), after.end()).first - before.begin());
  while (common > 0 && common < after.size() && (static_cast<unsigned char>(after[common]) & 0xc0) == 0x80)
    --common;
  require<DataError>(after.starts_with(earlier) && common > earlier.size(),
                     "{}: the chat template writes the chat before message {} differently once the message "
                     "is there, so its answer cannot be told from the rest; use a template with "
                     "{{% generation %}} blocks",
                     place.text(), message + 1);
  ++counts_.other_header;
  return common;
}

void SampleEncoder::check_tools(const Conversation& chat, const std::string& text, const Place& place) const {
  const auto require_name = [&](const Json& function, std::string_view what) {
    if (!function.is_object() || !function.contains("name") || !function["name"].is_string()) return;
    const auto& name = function["name"].get_ref<const std::string&>();
    require<DataError>(text.find(name) != std::string::npos,
                       "{}: the chat template leaves out the {} '{}': it does not support tools; give "
                       "another one with --template FILE",
                       place.text(), what, name);
  };
  if (chat.tools.is_array())
    for (const Json& tool : chat.tools)
      require_name(tool.is_object() && tool.contains("function") ? tool["function"] : tool, "tool");
  for (std::size_t i = 0; i < chat.messages.size(); ++i)
    if (chat.trained[i] && chat.messages[i].contains("tool_calls"))
      for (const Json& call : chat.messages[i]["tool_calls"]) require_name(call["function"], "tool call");
}

bool SampleEncoder::ends_turn(token::TokenId id) const {
  return tokenizer_.is_special(id) || tokenizer_.eos_id() == id;
}

EncodedText SampleEncoder::encode_spans(const std::string& text, const std::vector<Span>& spans,
                                        const Place& place) {
  EncodedText out;
  out.tokens = ids_of(encoder_, text, kRendered);
  out.trained.assign(out.tokens.size(), 0);
  const auto ends = token_ends(tokenizer_, text, out.tokens);
  for (const Span& span : spans) {
    std::size_t first = 0, end = 0;
    if (ends) {
      first =
          static_cast<std::size_t>(std::upper_bound(ends->begin(), ends->end(), span.begin) - ends->begin());
      end = static_cast<std::size_t>(std::lower_bound(ends->begin(), ends->end(), span.end) - ends->begin());
      end = std::min(end + 1, out.tokens.size());
    } else {
      first = token_at(encoder_, text, out.tokens, span.begin, kRendered);
      end = span.end >= text.size() ? out.tokens.size()
                                    : token_at(encoder_, text, out.tokens, span.end, kRendered);
    }
    // The turn ends at its last special token: the line end behind it is never generated.
    std::size_t last = end;
    while (last > first && !ends_turn(out.tokens[last - 1]) &&
           is_blank_text(tokenizer_.token_bytes(out.tokens[last - 1])))
      --last;
    if (last == first || !ends_turn(out.tokens[last - 1])) {
      require<DataError>(end < out.tokens.size() && ends_turn(out.tokens[end]),
                         "{}: the chat template ends an answer with no special token: a model that is tuned "
                         "on it would never stop; add {{{{ eos_token }}}} to the template behind answers",
                         place.text());
      last = end + 1;
    }
    std::fill(out.trained.begin() + static_cast<std::ptrdiff_t>(first),
              out.trained.begin() + static_cast<std::ptrdiff_t>(last), 1);
    turn_ends_.insert(out.tokens[last - 1]);
  }
  return out;
}

EncodedText SampleEncoder::encode_plain(const Continuation& text, const Place& place) {
  const auto eos = tokenizer_.eos_id() ? tokenizer_.eos_id() : tokenizer_.eod_id();
  require<DataError>(eos.has_value(),
                     "{}: the tokenizer names no end-of-text token, so a tuned model would never stop; add "
                     "eos_token to its tokenizer_config.json",
                     place.text());
  const std::string whole = text.prompt + text.answer;
  EncodedText out;
  out.tokens = ids_of(encoder_, whole, kRunningText);
  while (!out.tokens.empty() && out.tokens.back() == *eos) out.tokens.pop_back();
  // Tokens around the text (bos) do not spell it.
  std::size_t around = 0;
  const auto inner = ids_of(encoder_, whole, kRendered);
  while (around < out.tokens.size() && out.tokens.size() - around > inner.size()) ++around;
  std::size_t first = around;
  if (!text.prompt.empty()) {
    const auto ends = token_ends(tokenizer_, whole, inner);
    first += ends ? static_cast<std::size_t>(
                        std::upper_bound(ends->begin(), ends->end(), text.prompt.size()) - ends->begin())
                  : token_at(encoder_, whole, inner, text.prompt.size(), kRendered);
  }
  out.tokens.push_back(*eos);
  out.trained.assign(out.tokens.size(), 0);
  std::fill(out.trained.begin() + static_cast<std::ptrdiff_t>(first), out.trained.end(), 1);
  turn_ends_.insert(*eos);
  return out;
}

// Leaves out last turns until it fits; false: not even the first answer does.
bool SampleEncoder::shorten(EncodedText& text) {
  if (text.size() <= longest_) return true;
  auto end = static_cast<std::size_t>(longest_);
  while (end > 0 && (text.trained[end - 1] == 0 || text.trained[end] != 0)) --end;
  if (end == 0) {
    ++counts_.too_long;
    return false;
  }
  ++counts_.shortened;
  text.tokens.resize(end);
  text.trained.resize(end);
  return true;
}

// A long text continues in another sample; the token at the cut is in both, so that each is predicted.
void SampleEncoder::add_text(EncodedText text, std::int64_t number, std::vector<EncodedSample>& out) {
  if (text.size() <= longest_) {
    out.push_back({std::move(text), {}, {}, number});
    return;
  }
  ++counts_.split;
  for (std::int64_t begin = 0; begin + 1 < text.size(); begin += longest_ - 1) {
    const std::int64_t end = std::min(text.size(), begin + longest_);
    EncodedSample part;
    part.text.tokens.assign(text.tokens.begin() + begin, text.tokens.begin() + end);
    part.text.trained.assign(text.trained.begin() + begin, text.trained.begin() + end);
    part.record = number;
    out.push_back(std::move(part));
  }
}

}  // namespace stoa::tune
