// How answers are generated, as tasks and --gen_kwargs say it.
#pragma once

#include <string>

#include "eval/python/text.h"
#include "infer/generate.h"

namespace stoa::eval {

// Of generation_kwargs. ConfigError names an option that is not known, and its nearest.
infer::GenerateOptions generation_options(const Json& kwargs, const std::string& source, std::uint64_t seed);

}  // namespace stoa::eval
