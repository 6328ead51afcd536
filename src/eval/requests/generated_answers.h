// Generated answers of many prompts at once, on the engine of infer/engine.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "infer/engine/pass_plan.h"
#include "infer/generate.h"
#include "token/tokenizer.h"

namespace stoa::eval {

struct PromptToAnswer {
  std::vector<std::int32_t> tokens;
  const infer::GenerateOptions* options = nullptr;
  std::uint64_t seed = 0;  // in place of options->sampling.seed
};

// `end_ids`: they end an answer. `told`: each answer as soon as it is complete. NumericsError: logits that
// are not numbers.
void generate_answers(infer::PassModel& model, const token::Tokenizer& tokenizer,
                      const std::vector<std::int32_t>& end_ids, const std::vector<PromptToAnswer>& prompts,
                      const std::function<void(std::size_t prompt, const std::string& answer)>& told);

// Up to the first of `stops` that the text has.
std::string cut_at_stops(std::string text, const std::vector<std::string>& stops);
// An answer's text as the harness makes it: decoded as a whole, then cut at what ends it.
std::string answer_text(const token::Tokenizer& tokenizer, const std::vector<std::int32_t>& ids,
                        const std::vector<std::string>& stops);

}  // namespace stoa::eval
