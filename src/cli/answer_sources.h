// Text from encoder-decoders: sources in, targets out.
#pragma once

#include <string>

#include "cli/answer_list.h"
#include "cli/command.h"
#include "cli/sampling_arguments.h"
#include "infer/engine/rank_team.h"
#include "infer/open_model.h"

namespace stoa::cli {

struct AnswerOptions {
  SamplingArguments::Merged sampling;
  std::int64_t beams = 1;
  double length_penalty = 1;
  bool json = false;
  infer::EngineUse use = {};  // but for the lengths of texts
};

// ConfigError: options of sampling with a beam.
SamplingArguments::Merged merged_for_sources(const infer::OpenModel& model, const SamplingArguments& given,
                                             const AnswerOptions& options);
// Prints the answer to one source as it comes; from a beam at its end.
void answer_source(infer::OpenModel& model, const std::string& prompt, const AnswerOptions& options,
                   Context& context, infer::RankTeam* team);
// Those to the sources of a file. Every line is checked before the first answer. DataError names file and
// line.
void answer_source_file(infer::OpenModel& model, const std::string& prompts, const AnswerOptions& options,
                        AnswerList& answers, infer::RankTeam* team);

}  // namespace stoa::cli
