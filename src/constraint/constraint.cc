#include "constraint/constraint.h"

#include <utility>

namespace stoa::constraint {
Constraint::Constraint(const Grammar& grammar, std::shared_ptr<const TokenTrie> tokens, Budget& budget)
    : tokens_(std::move(tokens)),
      machine_(std::make_shared<const Pushdown>(grammar, budget), tokens_, budget.limits().depth) {}

ConstrainedText::ConstrainedText(std::shared_ptr<Constraint> constraint)
    : constraint_(std::move(constraint)) {}

void ConstrainedText::find_state() {
  if (constraint_->machine_.full()) {
    constraint_->machine_.clear();
    ++constraint_->clears_;
  }
  if (std::exchange(clears_, constraint_->clears_) == constraint_->clears_) return;
  state_ = constraint_->machine_.next(constraint_->machine_.start(), text_);
}

std::shared_ptr<const TokenBits> ConstrainedText::allowed() {
  if (allowed_) return allowed_;
  const std::lock_guard lock(constraint_->mutex_);
  find_state();
  return allowed_ = constraint_->machine_.mask(state_);
}

bool ConstrainedText::push(std::int32_t token) {
  if (token < 0 || token >= constraint_->tokens_->vocabulary()) return false;
  const std::string& bytes = constraint_->tokens_->bytes(token);
  if (bytes.empty()) return false;
  const std::lock_guard lock(constraint_->mutex_);
  find_state();
  const Machine::StateId next = constraint_->machine_.next(state_, bytes);
  if (next == Machine::kDead) return false;
  state_ = next;
  text_ += bytes;
  allowed_.reset();
  return true;
}

bool ConstrainedText::accepts() {
  const std::lock_guard lock(constraint_->mutex_);
  find_state();
  return constraint_->machine_.accepts(state_);
}

bool ConstrainedText::complete() {
  const std::lock_guard lock(constraint_->mutex_);
  find_state();
  return constraint_->machine_.complete(state_);
}

}  // namespace stoa::constraint
