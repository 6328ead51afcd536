#include "cli/marked_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/escape.h"
#include "token/stream_decoder.h"

namespace stoa::cli {
namespace {

struct Pen {
  const char *begin, *end;
};
constexpr Pen kGreen{"\x1b[32m", "\x1b[0m"}, kGrey{"\x1b[2m", "\x1b[0m"};
constexpr Pen kBracket{"⟦", "⟧"}, kNothing{"", ""};

// Lines stay lines; other control characters, which a terminal would obey, are spelled.
std::string printable(std::string_view bytes) {
  const std::string text = token::replace_invalid_utf8(bytes);
  std::string out;
  for (std::size_t begin = 0;;) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    out += escape_controls(std::string_view(text).substr(begin, end - begin));
    if (end == text.size()) return out;
    out += '\n';
    begin = end + 1;
  }
}

// Virtual tokens have the ids that follow the vocabulary.
std::string decode_all(const token::Tokenizer& tokenizer, std::span<const std::int32_t> ids) {
  const auto is_virtual = [&](std::int32_t id) { return id >= tokenizer.vocab_size(); };
  const auto text = std::find_if_not(ids.begin(), ids.end(), is_virtual);
  const auto count = text - ids.begin();
  const std::string front = count > 0 ? fmt::format("<{} virtual tokens>", count) : "";
  return front + tokenizer.decode(ids.subspan(static_cast<std::size_t>(count)));
}

}  // namespace

std::vector<MarkedText> marked_texts(const data::Batch& batch, std::int64_t r,
                                     const token::Tokenizer& tokenizer, Marks marks, MarkedTokens which) {
  const Pen trained = marks == Marks::kColours ? kGreen : kBracket,
            other = marks == Marks::kColours ? kGrey : kNothing;
  const auto row = static_cast<std::size_t>(r * batch.sequence_length);
  const auto boundaries = batch.boundaries(r);
  std::vector<MarkedText> out;
  for (std::size_t b = 0; b + 1 < boundaries.size(); ++b) {
    const auto begin = row + static_cast<std::size_t>(boundaries[b]),
               end = row + static_cast<std::size_t>(boundaries[b + 1]);
    const auto is_trained = [&](std::size_t i) {
      if (which == MarkedTokens::kScored) return batch.loss_mask[i] != 0;
      return i > begin && batch.loss_mask[i - 1] != 0;
    };
    MarkedText text;
    for (std::size_t i = begin; i < end;) {
      const bool on = is_trained(i);
      std::size_t last = i;
      while (last < end && is_trained(last) == on) ++last;
      const std::span<const std::int32_t> ids(batch.tokens.data() + i, last - i);
      const Pen& pen = on ? trained : other;
      text.text += pen.begin + printable(decode_all(tokenizer, ids)) + pen.end;
      text.tokens += static_cast<std::int64_t>(last - i);
      if (on) text.trained += static_cast<std::int64_t>(last - i);
      i = last;
    }
    if (text.trained > 0 || out.empty()) out.push_back(std::move(text));
  }
  return out;
}

std::string legend(Marks marks, MarkedTokens which) {
  if (which == MarkedTokens::kScored)
    return marks == Marks::kColours ? "the score of the green token counts" : "the score of ⟦ ⟧ counts";
  return marks == Marks::kColours ? "green is trained, grey is not" : "what is in ⟦ ⟧ is trained";
}

}  // namespace stoa::cli
