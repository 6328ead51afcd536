// A question and its context as rows of an encoder: [CLS] question [SEP] window [SEP], windows of the context
// that begin doc_stride tokens apart and overlap (Devlin et al. 2018; its run_squad). Offsets of the tokens
// lead from the bytes of an answer to its tokens and back.
#pragma once

#include "infer/labelled_rows.h"

namespace stoa::infer {

struct QuestionWindow {
  data::LabelledRow row;   // labelled where the question is: see nn/span_head.h
  std::int32_t first = 0;  // token of the row where the window begins
  std::int32_t count = 0;  // tokens of the window
  std::size_t from = 0;    // token of the context with which it begins
};

struct EncodedQuestion {
  struct Bytes {
    std::size_t begin, end;  // of the context
  };
  std::vector<Bytes> tokens;            // where an answer begins and ends whose first or last token it is
  std::vector<QuestionWindow> windows;  // at least one

  // Of an answer from token `first` to token `last` of the window's row.
  Bytes answer(const QuestionWindow& window, std::int64_t first, std::int64_t last) const;
};

// `stride`: tokens between the beginnings of two windows, at most what a row has room for. A question may
// take half of a row; what is beyond is cut off. The answer of a window that does not hold all of it is
// [CLS].
EncodedQuestion encode_question(RowEncoder& encoder, std::int64_t stride,
                                const data::LabelledQuestion& question, const data::LabelledSource& source);

// The likeliest answer in logits [tokens, 2] of a row: tokens [first, last] among `count` from `begin` on, of
// at most kLongestAnswer; `score` is the sum of their two logits.
inline constexpr std::int64_t kLongestAnswer = 30;
struct SpanChoice {
  std::int64_t first = 0, last = 0;
  double score = 0;
};
SpanChoice best_span(std::span<const float> logits, std::int64_t begin, std::int64_t count);

}  // namespace stoa::infer
