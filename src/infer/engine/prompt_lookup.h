// Guesses from the text itself: what followed the last time that it had the same ending (Saxena 2023, prompt
// lookup decoding). Answers that copy (summaries, edited code, questions on a document) gain, and it costs no
// model.
#pragma once

#include "infer/engine/drafter.h"

namespace stoa::infer {

class PromptLookup final : public Drafter {
 public:
  void propose(std::span<DraftWish> wishes) override;
};

// Up to `most` tokens that followed the last earlier occurrence of the longest ending, of 8 to 2 tokens, that
// the text has elsewhere; none: there is no such ending.
std::vector<std::int32_t> look_up(std::span<const std::int32_t> text, std::int64_t most);

}  // namespace stoa::infer
