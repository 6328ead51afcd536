#include "constraint/store.h"

#include "token/tokenizer.h"

namespace stoa::constraint {
namespace {

class TokenizerNames final : public TokenNames {
 public:
  explicit TokenizerNames(const token::Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  Node by_id(std::int32_t id) const override {
    if (id < 0 || id >= tokenizer_.vocab_size()) return nullptr;
    return tokenizer_.is_special(id) ? special_token(id) : text(tokenizer_.token_bytes(id));
  }
  Node by_text(std::string_view name) const override {
    const auto id = tokenizer_.token_to_id(name);
    return id ? by_id(*id) : nullptr;
  }

 private:
  const token::Tokenizer& tokenizer_;
};

}  // namespace

ConstraintStore::ConstraintStore(const token::Tokenizer& tokenizer, std::int64_t vocabulary,
                                 const Limits& limits)
    : tokenizer_(tokenizer), vocabulary_(vocabulary), limits_(limits) {}

std::shared_ptr<const TokenTrie> ConstraintStore::tokens() {
  std::call_once(read_, [this] { tokens_ = std::make_shared<const TokenTrie>(tokenizer_, vocabulary_); });
  return tokens_;
}

std::shared_ptr<Constraint> ConstraintStore::get(const Source& source) {
  return get(source.key(),
             [&](const TokenNames& names, Budget& budget) { return grammar_of(source, names, budget); });
}

std::shared_ptr<Constraint> ConstraintStore::get(const std::string& key, const Make& make) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = known_.find(key); known != known_.end()) {
      kept_.splice(kept_.begin(), kept_, known->second);
      return kept_.front().second;
    }
  }
  // Without the lock: another grammar need not wait.
  Budget budget(limits_);
  auto made = std::make_shared<Constraint>(make(TokenizerNames(tokenizer_), budget), tokens(), budget);
  const std::lock_guard lock(mutex_);
  if (known_.contains(key)) return made;
  kept_.emplace_front(key, made);
  known_.emplace(kept_.front().first, kept_.begin());
  if (kept_.size() > kMost) {
    known_.erase(kept_.back().first);
    kept_.pop_back();
  }
  return made;
}

}  // namespace stoa::constraint
