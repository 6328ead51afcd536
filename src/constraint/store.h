// The constraints of one vocabulary, compiled once each.
#pragma once

#include <functional>
#include <list>
#include <map>

#include "constraint/constraint.h"
#include "constraint/source.h"

namespace stoa::token {
class Tokenizer;
}

namespace stoa::constraint {

// Keeps the last constraints that were asked for. Any thread may use it.
class ConstraintStore {
 public:
  // `tokenizer` outlives this; the model has logits of `vocabulary` ids.
  ConstraintStore(const token::Tokenizer& tokenizer, std::int64_t vocabulary, const Limits& limits = {});

  // ConstraintError: what is wrong with it.
  std::shared_ptr<Constraint> get(const Source& source);
  // As above, for the grammar that `make` returns; it is called if `key` is not known yet.
  using Make = std::function<Grammar(const TokenNames& tokens, Budget& budget)>;
  std::shared_ptr<Constraint> get(const std::string& key, const Make& make);

 private:
  static constexpr std::size_t kMost = 24;  // each may hold tens of megabytes

  std::shared_ptr<const TokenTrie> tokens();

  const token::Tokenizer& tokenizer_;
  const std::int64_t vocabulary_;
  const Limits limits_;
  std::once_flag read_;
  std::shared_ptr<const TokenTrie> tokens_;

  std::mutex mutex_;
  using Kept = std::list<std::pair<std::string, std::shared_ptr<Constraint>>>;
  Kept kept_;  // the last asked for first
  std::map<std::string_view, Kept::iterator> known_;
};

}  // namespace stoa::constraint
