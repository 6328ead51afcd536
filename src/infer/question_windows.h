// A question and its context as rows for an encoder: [CLS] question [SEP] window [SEP]. Windows of the
// context begin doc_stride tokens apart and overlap (Devlin et al. 2018, run_squad). Token offsets map
// between the bytes of an answer and its tokens.
#pragma once

#include "infer/labelled_rows.h"

namespace stoa::infer {

struct QuestionWindow {
  data::LabelledRow row;   // labelled if the question is: see nn/span_head.h
  std::int32_t first = 0;  // token of the row at which the window begins
  std::int32_t count = 0;  // tokens of the window
  std::size_t from = 0;    // token of the context at which the window begins
};

struct EncodedQuestion {
  struct Bytes {
    std::size_t begin, end;  // of the context
  };
  std::vector<Bytes> tokens;            // bytes of an answer that begins or ends with this token
  std::vector<QuestionWindow> windows;  // at least one

  // The bytes of an answer from token `first` to token `last` of the window's row.
  Bytes answer(const QuestionWindow& window, std::int64_t first, std::int64_t last) const;
};

// `stride`: tokens between the beginnings of two windows, at most what a row has room for. A question longer
// than half a row is truncated. If a window does not contain the whole answer, its label is the token [CLS],
// as for a question without an answer.
EncodedQuestion encode_question(RowEncoder& encoder, std::int64_t stride,
                                const data::LabelledQuestion& question, const data::LabelledSource& source);

// The most likely answer in logits [tokens, 2] of a row: tokens [first, last], within `count` tokens from
// `begin` on, of at most kLongestAnswer tokens; `score` is the sum of their two logits.
inline constexpr std::int64_t kLongestAnswer = 30;
struct SpanChoice {
  std::int64_t first = 0, last = 0;
  double score = 0;
};
SpanChoice best_span(std::span<const float> logits, std::int64_t begin, std::int64_t count);

}  // namespace stoa::infer
