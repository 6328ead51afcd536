// MMLU-Pro (Wang et al. 2024): questions of up to ten choices, answered after thinking in text.
#pragma once

#include "eval/python/text.h"

namespace stoa::eval {

Json mmlu_pro_text(const Json& doc);
// The worked answer of a document that is an example.
Json mmlu_pro_shot_target(const Json& doc);

}  // namespace stoa::eval
