// Byte-level BPE as two files, in any place.
#pragma once

#include "token/tokenizer.h"

namespace stoa::token {

// GPT-2's vocab.json and merges.txt under any names; settings in addition to the vocabulary count as in
// Tokenizer::load(). IoError, DataError.
Tokenizer load_vocab_merges(const fs::path& vocab, const fs::path& merges);

}  // namespace stoa::token
