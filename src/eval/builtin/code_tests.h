// Programs that a model writes, run with the tests of their problem in a sandbox: HumanEval (Chen et al.
// 2021) and MBPP (Austin et al. 2021).
#pragma once

#include "eval/python/text.h"

namespace stoa::eval {

// ConfigError: there is no sandbox here (eval/sandbox/python_sandbox.h).
void require_code_sandbox();

// Filters: a list of answers to a list of programs.
Json humaneval_programs(const Json& answers, const Json& doc);           // behind the document's prompt
Json humaneval_instruct_programs(const Json& answers, const Json& doc);  // the same up to ```
Json mbpp_programs(const Json& answers, const Json& doc);                // the first block of code

// Metrics: `tests` run behind each program, three seconds at most. {"pass@k": the estimate of Chen et al.
// 2021, from all programs, that one of k passes} for every k of `arguments` that is not above their number;
// the share that passes.
Json pass_at_k(const Json& tests, const Json& programs, const Json& arguments);
Json pass_at_1(const Json& tests, const Json& programs, const Json& arguments);

// The three problems with solutions that stand before MBPP's.
Json mbpp_samples();

}  // namespace stoa::eval
