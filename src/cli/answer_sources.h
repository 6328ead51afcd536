// Text from encoder-decoders: sources in, targets out.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/model_argument.h"
#include "run/generate.h"

namespace stoa::cli {

struct AnswerOptions {
  run::GenerateOptions generate;
  std::int64_t beams = 1;
  double length_penalty = 1;
  bool json = false;
};

// Prints the answer to one source as it comes, those to several (or from a beam) a line each in their order.
void answer_sources(const ModelArguments& model, const std::vector<std::string>& sources,
                    AnswerOptions options, Context& context);

}  // namespace stoa::cli
