// What the text of an answer must be, and which tokens may come next in one.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "constraint/machine.h"

namespace stoa::constraint {

// A grammar compiled for a vocabulary; all sequences that follow it share what is found out about it. Any
// thread may use it.
class Constraint {
 public:
  // ConstraintError: beyond the budget, or no text fits.
  Constraint(const Grammar& grammar, std::shared_ptr<const TokenTrie> tokens, Budget& budget);

 private:
  friend class ConstrainedText;
  const std::shared_ptr<const TokenTrie> tokens_;
  std::mutex mutex_;  // of what follows
  Machine machine_;
  std::int64_t clears_ = 0;
};

// The text of one answer as its tokens come. Used by one thread at a time.
class ConstrainedText {
 public:
  explicit ConstrainedText(std::shared_ptr<Constraint> constraint);

  // Tokens that may come next; found once for each text. ConstraintError: the text is too ambiguous to be
  // followed.
  std::shared_ptr<const TokenBits> allowed();
  // Appends a token. False: it was not allowed, and nothing changed. Errors as above.
  bool push(std::int32_t token);
  // Whether the text may end here, and whether it must.
  bool accepts();
  bool complete();

 private:
  // With the constraint's lock: makes state_ valid again after the machine forgot it.
  void find_state();

  std::shared_ptr<Constraint> constraint_;
  std::string text_;                               // bytes of the tokens so far
  std::shared_ptr<const TokenBits> allowed_ = {};  // next; none: not found yet
  Machine::StateId state_ = 0;
  std::int64_t clears_ = -1;  // of the machine whose state state_ is
};

}  // namespace stoa::constraint
