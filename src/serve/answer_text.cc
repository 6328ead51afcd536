#include "serve/answer_text.h"

#include <algorithm>

namespace stoa::serve {

std::int64_t characters(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

AnswerText::AnswerText(const token::Tokenizer& tokenizer, const Options& options)
    : decoder_(tokenizer, {.skip_special = options.skip_special}),
      filter_(options.stop, options.include_stop),
      lines_(options.lines),
      keep_scores_(options.keep_scores) {}

AnswerPiece AnswerText::push(const infer::ScoredToken& score, bool& stopped) {
  ++tokens_;
  if (keep_scores_) waiting_.push_back({score, decoded_});
  const std::string text = decoder_.push(score.token.id);
  decoded_ += characters(text);
  bool last_line = false;
  const std::size_t size = lines_.take(text, LineLimits::Clock::now(), last_line);
  stopped = false;
  std::string certain = filter_.push(text.substr(0, size), stopped);
  if (last_line && !stopped) {
    stopped = true;
    certain += filter_.finish();
  }
  return piece(std::move(certain), stopped);
}

AnswerPiece AnswerText::finish() {
  bool stopped = false;
  const std::string rest = decoder_.finish();
  decoded_ += characters(rest);
  std::string text = filter_.push(rest, stopped);
  if (!stopped) text += filter_.finish();
  return piece(std::move(text), true);
}

AnswerPiece AnswerText::piece(std::string text, bool last) {
  AnswerPiece out;
  out.text = std::move(text);
  given_ += characters(out.text);
  // At the end, what begins behind the text belongs to a stop text; a token without text stays if nothing
  // was cut.
  const auto given = [&](const PlacedScore& token) {
    return token.offset < given_ || (last && given_ == decoded_);
  };
  const auto end = std::find_if_not(waiting_.begin(), waiting_.end(), given);
  out.tokens.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return out;
}

}  // namespace stoa::serve
