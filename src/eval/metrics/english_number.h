// Whole numbers in English words, as word2number 1.1 reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace stoa::eval {

// "two hundred and three" is 203; other words are left out. None: no word is one of a number, or the words
// make none.
std::optional<std::int64_t> english_number(const std::string& words);

}  // namespace stoa::eval
