// `stoa score --reward`: what a model with one label gives texts.
#pragma once

#include <string>

#include "base/console.h"
#include "cli/input_lines.h"
#include "infer/open_model.h"

namespace stoa::cli {

// Every line of `in` is a record of tuning data (tune/record.h). Prints {"score": …} for a text or a chat,
// {"chosen": …, "rejected": …, "margin": …} for a pair; the console gets the share of pairs in which the
// chosen answer wins. `name`: of the input, for messages. ConfigError: a model that gives no score;
// DataError: a line that is no record, or longer than the model.
void score_rewards(infer::OpenModel& model, InputLines& in, const std::string& name, Console& console);

}  // namespace stoa::cli
