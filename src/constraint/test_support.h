// For tests of constraints.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "constraint/constraint.h"
#include "constraint/source.h"

namespace stoa::constraint {

class NoTokens final : public TokenNames {
 public:
  Node by_id(std::int32_t) const override { return nullptr; }
  Node by_text(std::string_view) const override { return nullptr; }
};

// A token per byte.
inline std::shared_ptr<const TokenTrie> byte_tokens() {
  std::vector<std::string> texts;
  for (int b = 0; b < 255; ++b) texts.emplace_back(1, static_cast<char>(b));
  return std::make_shared<const TokenTrie>(std::move(texts), std::vector<std::int32_t>{});
}

inline Machine machine_of(const Grammar& grammar, std::shared_ptr<const TokenTrie> tokens = byte_tokens(),
                          std::int64_t depth = Limits().depth) {
  Budget budget({.seconds = 60});
  return Machine(std::make_shared<const Pushdown>(grammar, budget), std::move(tokens), depth);
}
inline Machine machine_of(const Source& source) {
  Budget budget({.seconds = 60});
  return machine_of(grammar_of(source, NoTokens(), budget));
}

inline bool accepts(Machine& machine, std::string_view text) {
  const auto state = machine.next(machine.start(), text);
  return state != Machine::kDead && machine.accepts(state);
}

// A regular expression over `vocabulary` tokens that are a letter of a to e (five), two of them, or, the last
// five, nothing.
inline std::shared_ptr<Constraint> letters_that_match(std::string_view pattern, int vocabulary = 50) {
  std::vector<std::string> texts;
  for (int id = 0; id < vocabulary; ++id) {
    const char a = static_cast<char>('a' + id % 5), b = static_cast<char>('a' + id / 5 % 5);
    texts.push_back(id < 5 ? std::string{a} : id < vocabulary - 5 ? std::string{a, b} : "");
  }
  Budget budget;
  return std::make_shared<Constraint>(
      grammar_of({.kind = Source::Kind::kRegex, .text = std::string(pattern)}, NoTokens(), budget),
      std::make_shared<const TokenTrie>(std::move(texts), std::vector<std::int32_t>{}), budget);
}

// The message of the ConstraintError with which a source is refused; "": it is not.
inline std::string refusal(const Source& source, const Limits& limits = {}) {
  try {
    Budget budget(limits);
    (void)Pushdown(grammar_of(source, NoTokens(), budget), budget);
  } catch (const ConstraintError& error) {
    return error.what();
  }
  return "";
}

}  // namespace stoa::constraint
