// Answers of a model that runs passes over many sequences: one that was loaded for it, or a training rank's.
#pragma once

#include "eval/requests/encoded_requests.h"
#include "infer/engine/pass_plan.h"

namespace stoa::eval {

// `end_ids`: they end an answer. Errors of generate_answers.
void answer_by_passes(infer::PassModel& model, const token::Tokenizer& tokenizer,
                      const std::vector<std::int32_t>& end_ids, EncodedRequests& requests,
                      const AnswerTold& told);

}  // namespace stoa::eval
