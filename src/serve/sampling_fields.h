// The fields of a request that say how an answer is drawn.
#pragma once

#include "serve/answer_text.h"
#include "serve/served_model.h"

namespace stoa::serve {

constexpr std::int64_t kMostChoices = 128, kMostCandidates = 20;

// A request without prompt and length. What a request leaves open comes from the model's
// generation_config.json, where that says that it draws, else from OpenAI's defaults.
infer::Request read_sampling(const RequestBody& body, const ServedModel& model);
// stop, skip_special_tokens, include_stop_str_in_output.
AnswerText::Options read_text_options(const RequestBody& body);
// Stop texts of a field; 400 for more than 64, an empty one, or one of more than 1,000 bytes.
std::vector<std::string> read_stops(const RequestBody& body, const char* name);
// The length of an answer, at least `least`; none: the field is not given, or -1, as llama-server has it.
std::optional<std::int64_t> read_length(const RequestBody& body, const char* field, std::int64_t least = 1);
// ApiError 400, code context_length_exceeded: the prompt and `wanted` tokens do not fit. Without `wanted`:
// the tokens that fit.
std::int64_t answer_length(const ServedModel& model, std::size_t prompt_tokens,
                           std::optional<std::int64_t> wanted, const char* field);
std::uint64_t random_seed();
// logprobs_mode: whether log-probabilities are of what tokens are drawn from, not of the model alone.
bool reads_processed_logprobs(const RequestBody& body);

}  // namespace stoa::serve
