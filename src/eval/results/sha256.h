// SHA-256 (FIPS 180-4): the hashes of documents and prompts in samples_*.jsonl.
#pragma once

#include <string>
#include <string_view>

namespace stoa::eval {

std::string sha256(std::string_view text);  // 64 hexadecimal digits

}  // namespace stoa::eval
