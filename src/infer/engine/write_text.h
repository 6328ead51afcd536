// Text from an engine that nobody else uses: one answer, while the caller waits.
#pragma once

#include "infer/engine/engine.h"
#include "infer/generate.h"

namespace stoa::infer {

// What the engine is asked for.
Request request_of(std::vector<std::int32_t> prompt, const token::Tokenizer& tokenizer,
                   const GenerateOptions& options);
// Drops the beginning of a prompt that leaves less room in `context` than the answer, or half of it, takes;
// returns how many tokens.
std::int64_t shorten_prompt(std::vector<std::int32_t>& prompt, std::int64_t context,
                            const GenerateOptions& options);

// Errors of Engine::check, and what a pass or `take` throws; the engine is empty again then. DataError: a
// constraint left no token.
GenerateResult write_text(Engine& engine, const token::Tokenizer& tokenizer, std::vector<std::int32_t> prompt,
                          const GenerateOptions& options, const TakeText& take);
// The same of a text, shortened where it is too long.
GenerateResult write_text(Engine& engine, const token::Tokenizer& tokenizer, std::string_view prompt,
                          const GenerateOptions& options, const TakeText& take);

}  // namespace stoa::infer
