// Speculation: guesses at the next tokens of a text, computed in one pass with its last token. A guess is
// accepted if the sampler draws it, with the random number of that place, from the model's own logits: an
// answer has the same bits with guesses and without, whether it is sampled or greedy.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "infer/engine/pass_plan.h"
#include "infer/token_sampler.h"

namespace stoa::infer {

// What the next tokens of a text are guessed from, and the guesses: at most `most`.
struct DraftWish {
  SequenceId sequence = 0;
  std::span<const std::int32_t> text;  // prompt and answer so far
  const TokenSampler* sampler = nullptr;
  std::int64_t most = 0;
  std::vector<std::int32_t> guesses = {};
};

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual void propose(std::span<DraftWish> wishes) = 0;
  // As of PassModel.
  virtual void use_in_this_thread() {}
  // A sequence has ended.
  virtual void forget(SequenceId) {}
};

// How many guesses a text is worth, by what became of the earlier ones: twice as many after all came true,
// half after most did not; none for a while, each time longer, after the last one alone failed.
class DraftLength {
 public:
  std::int64_t next(std::int64_t most) {
    if (pause_ > 0) {
      --pause_;
      return 0;
    }
    return std::min(length_, most);
  }
  void learn(std::int64_t guessed, std::int64_t came_true) {
    if (guessed == 0) return;
    if (came_true == guessed) {
      length_ = std::min<std::int64_t>(2 * length_, 64);
      penalty_ = kFirstPenalty;
    } else if (2 * came_true < guessed) {
      if (length_ == 1 || came_true == 0) {
        pause_ = penalty_;
        penalty_ = std::min<std::int64_t>(2 * penalty_, 256);
      }
      length_ = std::max<std::int64_t>(1, length_ / 2);
    }
  }

 private:
  static constexpr std::int64_t kFirstPenalty = 4;
  std::int64_t length_ = 2, pause_ = 0, penalty_ = kFirstPenalty;
};

}  // namespace stoa::infer
