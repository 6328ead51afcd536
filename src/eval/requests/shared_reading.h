// Log-likelihoods of many texts by passes over many sequences, in which what texts have in common at their
// beginning is read once. The bits of a text's score do not depend on the others.
#pragma once

#include <functional>

#include "eval/requests/prefix_tree.h"
#include "infer/engine/pass_plan.h"

namespace stoa::eval {

struct TextScore {
  double log_likelihood = 0;  // of the labels
  bool greedy = true;         // every label is the most likely token
};

// `told`: of each text as soon as it is known. Returns the number of tokens that were read.
std::int64_t score_texts(infer::PassModel& model, std::span<const LabelledText> texts,
                         const std::function<void(std::size_t text, const TextScore& score)>& told);

}  // namespace stoa::eval
