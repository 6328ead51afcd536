// How long passes of the engine take, by what is in them: what a simulated server needs to know of a machine
// and a model.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "infer/engine/pass_plan.h"

namespace stoa::serve {

struct PassTimes {
  // Seconds by a count, ascending; straight lines in between, beyond the last proportional.
  using Curve = std::vector<std::pair<std::int64_t, double>>;

  Curve tokens;         // of all of a pass, one of them with logits; without attention to other tokens
  Curve scored;         // what the logits of this many tokens take more than those of one
  double per_read = 0;  // of a segment of one token, per token that it attends to
  double per_pair = 0;  // of longer segments, per token and token that it attends to
  // Encoder-decoders, whose tokens above are those of targets: what sources of this many tokens take more in
  // a pass, without attention among their tokens; that attention, per pair of them; and what a target's token
  // takes per token of its source.
  Curve sources = {};
  double per_source_pair = 0, per_source_read = 0;

  double seconds(const infer::PassPlan& plan) const;
};

// Pairs of a token and one that it attends to, of `count` tokens after `begin` others.
double attended_pairs(std::int64_t begin, std::int64_t count);

double at_count(const PassTimes::Curve& curve, std::int64_t count);

// 1, 2, 4, … and `most`: the counts of a curve.
std::vector<std::int64_t> doubling_counts(std::int64_t most);

// Measured on a loaded model: passes of up to as many answers as it runs at once, up to a whole pass of a
// prompt and the longest source. The curves are medians of `rounds` rounds over all kinds, per_read of four
// times as many passes; per_pair is from two passes. The model must not be in use.
PassTimes measure_passes(infer::PassModel& model, int rounds);

}  // namespace stoa::serve
