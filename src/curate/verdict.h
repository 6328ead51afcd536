// The outcome of a stage's rules: the first that fails drops a document; where all values are needed, no rule
// ends the stage.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoa::curate {

class Verdict {
 public:
  enum class Mode {
    kDecide,   // ends at the first rule that fails
    kMeasure,  // continues, to know all values
  };
  enum class Sense {
    kAtMost,   // a larger value fails
    kAtLeast,  // a smaller one
    kNever,    // there is no limit to choose
  };
  struct Value {
    std::string rule;
    double value = 0;
    double limit = 0;  // 0: the rule is off
    Sense sense = Sense::kNever;
    bool fails = false;
  };

  static bool is_beyond(double value, Sense sense, double limit) {
    return limit != 0 &&
           ((sense == Sense::kAtMost && value > limit) || (sense == Sense::kAtLeast && value < limit));
  }

  explicit Verdict(Mode mode = Mode::kDecide) : mode_(mode) {}
  void reset() {
    rule_.clear();
    values_.clear();
  }

  // All return whether the stage has nothing more to do. A rule whose limit is 0 is off.
  bool above(std::string_view rule, double value, double limit) {
    return judge(rule, value, limit, Sense::kAtMost, is_beyond(value, Sense::kAtMost, limit));
  }
  bool below(std::string_view rule, double value, double limit) {
    return judge(rule, value, limit, Sense::kAtLeast, is_beyond(value, Sense::kAtLeast, limit));
  }
  // Fails or holds; no limit to choose.
  bool fails(std::string_view rule, bool failed) { return judge(rule, failed, 0, Sense::kNever, failed); }

  bool dropped() const { return !rule_.empty(); }
  const std::string& rule() const { return rule_; }  // the first that failed; empty: none
  const std::vector<Value>& values() const { return values_; }

 private:
  bool judge(std::string_view rule, double value, double limit, Sense sense, bool failed) {
    if (mode_ == Mode::kMeasure) values_.push_back({std::string(rule), value, limit, sense, failed});
    if (failed && rule_.empty()) rule_ = rule;
    return failed && mode_ == Mode::kDecide;
  }

  const Mode mode_;
  std::string rule_;
  std::vector<Value> values_;
};

}  // namespace stoa::curate
