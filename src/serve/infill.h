// Prompts that ask for what is between two texts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "serve/served_model.h"

namespace stoa::serve {

struct InfillText {
  std::string prefix, suffix;
  std::vector<std::pair<std::string, std::string>> files;  // name and content of others of the project
};

// The ids of the prompt, by the special tokens of the model's family. ApiError 400, about `field`: it has no
// such tokens, or is an encoder-decoder; about "input_extra": there are files, and no token separates them.
std::vector<std::int32_t> infill_prompt(const ServedModel& model, const InfillText& text, const char* field);

}  // namespace stoa::serve
