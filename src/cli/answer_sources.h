// Text from encoder-decoders: sources in, targets out.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/sampling_arguments.h"
#include "infer/open_model.h"

namespace stoa::cli {

struct AnswerOptions {
  SamplingArguments sampling;
  std::int64_t beams = 1;
  double length_penalty = 1;
  bool json = false;
};

// Prints the answer to one source as it comes, those to several (or from a beam) a line each in their order.
void answer_sources(infer::OpenModel& model, const std::vector<std::string>& sources,
                    const AnswerOptions& options, Context& context);

}  // namespace stoa::cli
