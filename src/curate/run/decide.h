// Decides about documents that were tagged (tags.h) without looking at their texts again: with the limits of
// the pipeline or with others.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/file.h"
#include "curate/run/flow.h"
#include "curate/verdict.h"

namespace stoa::curate {

// A rule and the side of its limit; "stage/rule<=" as text.
struct RuleSide {
  std::string rule;
  Verdict::Sense sense = Verdict::Sense::kNever;
  friend auto operator<=>(const RuleSide&, const RuleSide&) = default;
  std::string text() const;
};

struct RuleReport {
  double limit = 0;   // 0: off
  Amount first, any;  // documents that it drops, and those that it fails
};

struct WhatIf {
  double limit = 0;      // 0: off
  Amount kept, dropped;  // dropped: by this rule alone
};

struct Decision {
  Flow flow;
  std::vector<std::pair<RuleSide, RuleReport>> rules;  // in the order in which they decide
  std::vector<WhatIf> what_if;
};

struct DecideOptions {
  fs::path tagged;  // the output of a tagging run
  fs::path output;  // empty: only the report
  // "RULE=VALUE", "RULE<=VALUE", "RULE>=VALUE"; VALUE `off` or 0 switches the rule off.
  std::vector<std::string> limits;
  std::string what_if;  // a rule, with <= or >= where it has two limits; empty: none
};

// ConfigError: no tagging run, a rule that it did not measure (with the nearest), a limit that is not a
// number, an output that holds something else. Interrupted: the next run continues.
Decision decide(const DecideOptions& options, Console& console, const std::stop_token& stop = {});

nlohmann::ordered_json to_json(const Decision& decision);
// Documents and bytes per rule, by the first and by any reason; then what other limits would do.
std::string decision_table(const Decision& decision);

}  // namespace stoa::curate
