#include "infer/question_windows.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace stoa::infer {
namespace {

using Bytes = EncodedQuestion::Bytes;

bool is_ascii(char c, int (*is)(int)) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x80 && is(byte) != 0;
}

// From here on scripts write words without blanks between (CJK): where one ends is not seen.
constexpr char32_t kFirstWithoutBlanks = 0x2E80;

// Between characters that belong to one word.
bool within_word(const std::string& text, std::size_t at) {
  if (at == 0 || at >= text.size()) return false;
  const auto of_word = [](token::CodePoint c, char byte) {
    return c.value < kFirstWithoutBlanks && !is_ascii(byte, std::isspace) && !is_ascii(byte, std::ispunct);
  };
  const char *p = text.data() + at, *end = text.data() + text.size();
  return of_word(token::read_utf8_before(text.data(), p), p[-1]) && of_word(token::read_utf8(p, end), *p);
}

// What each token came from, without the blanks at its ends.
std::vector<Bytes> bytes_of(const std::string& text, const std::vector<token::Encoding::Offsets>& offsets) {
  std::vector<std::size_t> characters;  // where each begins
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) characters.push_back(i);
  characters.push_back(text.size());
  std::vector<Bytes> out;
  for (const auto& o : offsets) {
    Bytes b{characters[std::min<std::size_t>(o.begin, characters.size() - 1)],
            characters[std::min<std::size_t>(o.end, characters.size() - 1)]};
    while (b.begin < b.end && is_ascii(text[b.begin], std::isspace)) ++b.begin;
    while (b.begin < b.end && is_ascii(text[b.end - 1], std::isspace)) --b.end;
    out.push_back(b);
  }
  return out;
}

}  // namespace

Bytes EncodedQuestion::answer(const QuestionWindow& window, std::int64_t first, std::int64_t last) const {
  const auto token = [&](std::int64_t of_row) {
    return tokens[window.from + static_cast<std::size_t>(of_row - window.first)];
  };
  return {token(first).begin, std::max(token(first).begin, token(last).end)};
}

EncodedQuestion encode_question(RowEncoder& encoder, std::int64_t stride,
                                const data::LabelledQuestion& question, const data::LabelledSource& source) {
  EncodedQuestion out;
  const std::string& text = question.context;
  const token::Encoding encoding = encoder.with_offsets(text);
  const std::vector<token::TokenId>& context = encoding.ids;
  out.tokens = bytes_of(text, encoding.offsets);
  auto asked = encoder.ids_of(question.question);
  const std::int64_t around = encoder.tokens_around_pair();
  asked.resize(std::min(asked.size(), static_cast<std::size_t>((encoder.longest() - around) / 2)));
  const std::int64_t room = encoder.longest() - around - static_cast<std::int64_t>(asked.size()),
                     total = static_cast<std::int64_t>(context.size());

  // Tokens of the first answer: those that came from a part of it.
  std::int64_t first_token = -1, last_token = -1;
  if (!question.answers.empty()) {
    const auto& answer = question.answers.front();
    for (std::size_t t = 0; t < out.tokens.size(); ++t) {
      const auto [begin, end] = out.tokens[t];
      if (begin == end || end <= answer.begin || begin >= answer.begin + answer.text.size()) continue;
      if (first_token < 0) first_token = static_cast<std::int64_t>(t);
      last_token = static_cast<std::int64_t>(t);
    }
  }
  // An answer is of whole words.
  for (Bytes& b : out.tokens) {
    while (within_word(text, b.begin)) --b.begin;
    while (within_word(text, b.end)) ++b.end;
  }

  for (std::int64_t begin = 0;; begin += std::min(stride, room)) {
    const std::int64_t count = std::min(room, total - begin);
    QuestionWindow window;
    window.row = encoder.pair(
        asked, std::span(context).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    window.row.file = source.file, window.row.line = source.line;
    window.first = static_cast<std::int32_t>(static_cast<std::int64_t>(window.row.tokens.size()) -
                                             encoder.tokens_after_pair() - count);
    window.count = static_cast<std::int32_t>(count);
    window.from = static_cast<std::size_t>(begin);
    if (question.labelled) {
      const bool inside = first_token >= 0 && first_token >= begin && last_token < begin + count;
      const auto place = [&](std::int64_t token) {
        return inside ? window.first + static_cast<std::int32_t>(token - begin) : 0;
      };
      window.row.labels = {{0, place(first_token)}};
      window.row.second_label = place(last_token);
    }
    out.windows.push_back(std::move(window));
    if (begin + count >= total) return out;
  }
}

SpanChoice best_span(std::span<const float> logits, std::int64_t begin, std::int64_t count) {
  SpanChoice best{begin, begin, -std::numeric_limits<double>::infinity()};
  for (std::int64_t i = begin; i < begin + count; ++i)
    for (std::int64_t j = i; j < std::min(begin + count, i + kLongestAnswer); ++j) {
      const double score = static_cast<double>(logits[static_cast<std::size_t>(2 * i)]) +
                           static_cast<double>(logits[static_cast<std::size_t>(2 * j + 1)]);
      if (score > best.score) best = {i, j, score};
    }
  return best;
}

}  // namespace stoa::infer
