// Unicode normalization form C as Hugging Face tokenizers applies it.
#pragma once

#include <string>
#include <string_view>

#include "token/unicode.h"

namespace stoa::token {

// NFC of `text`. Returns `text` itself when nothing can change, else a view of `storage`. Bytes that are not
// UTF-8 stay. Characters newer than the Unicode version of that normalizer keep their place
// (UnicodeClasses::is_barrier).
std::string_view normalize_nfc(std::string_view text, const UnicodeClasses& classes, std::string& storage);

}  // namespace stoa::token
