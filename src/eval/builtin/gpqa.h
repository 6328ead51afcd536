// GPQA (Rein et al. 2023): the right answer among three wrong ones, shuffled by Python's generator. The
// harness shuffles whenever it reads the documents, and keeps the first order in a cache; here there is one.
#pragma once

#include <cstdint>
#include <vector>

#include "eval/python/text.h"

namespace stoa::eval {

// Adds choice1 to choice4 and answer, "(A)" to "(D)".
void gpqa_documents(std::vector<Json>& docs, std::uint64_t python_seed);
void gpqa_n_shot_documents(std::vector<Json>& docs, std::uint64_t python_seed);      // by seed 42
void gpqa_generative_documents(std::vector<Json>& docs, std::uint64_t python_seed);  // also the list

}  // namespace stoa::eval
