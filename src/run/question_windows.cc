#include "run/question_windows.h"

#include <algorithm>
#include <cctype>
#include <limits>

namespace stoa::run {
namespace {

bool is_space(char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; }

// Words between white space; `marks`: ASCII punctuation apart, as WordPiece cuts it.
std::vector<EncodedQuestion::Piece> pieces_of(const std::string& text, bool marks) {
  std::vector<EncodedQuestion::Piece> out;
  bool open = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_space(text[i])) {
      open = false;
      continue;
    }
    const bool mark = marks && std::ispunct(static_cast<unsigned char>(text[i])) != 0;
    if (open && !mark)
      out.back().end = i + 1;
    else
      out.push_back({i, i + 1});
    open = !mark;
  }
  return out;
}

}  // namespace

EncodedQuestion encode_question(const RowEncoder& encoder, std::int64_t stride,
                                const data::LabelledQuestion& question, const data::LabelledSource& source) {
  EncodedQuestion out;
  out.pieces = pieces_of(question.context, !encoder.roberta());
  std::vector<token::TokenId> context;
  std::vector<std::int32_t> piece_of;
  for (std::size_t p = 0; p < out.pieces.size(); ++p) {
    const auto [begin, end] = out.pieces[p];
    const std::string word = question.context.substr(begin, end - begin);
    const auto ids = encoder.ids_of(encoder.roberta() && p > 0 ? " " + word : word);
    context.insert(context.end(), ids.begin(), ids.end());
    piece_of.resize(context.size(), static_cast<std::int32_t>(p));
  }
  auto asked = encoder.ids_of(question.question);
  const std::int64_t around = encoder.tokens_around_pair();
  asked.resize(std::min(asked.size(), static_cast<std::size_t>((encoder.longest() - around) / 2)));
  const std::int64_t room = encoder.longest() - around - static_cast<std::int64_t>(asked.size()),
                     total = static_cast<std::int64_t>(context.size());

  // Pieces of the first answer.
  std::int32_t first_piece = -1, last_piece = -1;
  if (!question.answers.empty()) {
    const auto& answer = question.answers.front();
    for (std::size_t p = 0; p < out.pieces.size(); ++p)
      if (out.pieces[p].end > answer.begin && out.pieces[p].begin < answer.begin + answer.text.size()) {
        if (first_piece < 0) first_piece = static_cast<std::int32_t>(p);
        last_piece = static_cast<std::int32_t>(p);
      }
  }
  const auto first_token = std::find(piece_of.begin(), piece_of.end(), first_piece) - piece_of.begin();
  const auto last_token = piece_of.rend() - std::find(piece_of.rbegin(), piece_of.rend(), last_piece) - 1;
  const bool answered = first_piece >= 0 && first_token < total && last_token >= first_token;

  for (std::int64_t begin = 0;; begin += std::min(stride, room)) {
    const std::int64_t count = std::min(room, total - begin);
    QuestionWindow window;
    window.row = encoder.pair(
        asked, std::span(context).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count)));
    window.row.file = source.file, window.row.line = source.line;
    window.first = static_cast<std::int32_t>(static_cast<std::int64_t>(window.row.tokens.size()) - 1 - count);
    window.piece.assign(piece_of.begin() + begin, piece_of.begin() + begin + count);
    if (question.labelled) {
      const bool inside = answered && first_token >= begin && last_token < begin + count;
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

}  // namespace stoa::run
