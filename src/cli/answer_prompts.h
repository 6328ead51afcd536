// Answers to the prompts of a file, many at a time.
#pragma once

#include <string>

#include "cli/answer_list.h"
#include "infer/engine/engine.h"

namespace stoa::cli {

// The source that an encoder-decoder reads. DataError: a conversation.
std::vector<std::int32_t> source_ids(const token::Tokenizer& tokenizer, const FilePrompt& prompt);

// Checks every line before the first answer. An answer depends on its line alone, not on what is answered
// with it. DataError names file and line.
void answer_prompts(infer::Engine& engine, const token::Tokenizer& tokenizer, const std::string& prompts,
                    const infer::GenerateOptions& options, AnswerList& answers);

}  // namespace stoa::cli
