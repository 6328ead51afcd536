// What is taken out of a generated answer before it is scored (lm_eval/filters).
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "eval/metrics/filter_action.h"
#include "eval/tasks/task_config.h"

namespace stoa::eval {

class FilterChain {
 public:
  // ConfigError: an unknown filter, or arguments that it does not take.
  FilterChain(const FilterSpec& spec, const std::string& source);
  ~FilterChain();
  FilterChain(FilterChain&&) noexcept;

  const std::string& name() const { return name_; }
  // Only take_first: the one chain for log-likelihoods.
  bool only_first() const { return only_first_; }
  // `responses`: texts, one per repeat. A text after take_first, else a list. multi_choice_regex reads the
  // list 'choices' of the document; DataError: there is none.
  Json apply(const std::vector<std::string>& responses, const Json& document = Json::object()) const;

 private:
  struct Kinds;
  std::string name_;
  bool only_first_ = true;
  std::vector<std::unique_ptr<const FilterAction>> steps_;
};

}  // namespace stoa::eval
