// The tokenizer in a GGUF file: what keys below `tokenizer.` mean, and how they express a tokenizer.
#pragma once

#include "formats/gguf/gguf_file.h"
#include "token/tokenizer.h"

namespace stoa::token {

// Models of tokenizer.ggml.model that are read: gpt2 (byte-level BPE) and llama (SentencePiece's BPE, whose
// merges follow from the scores). DataError: another; a pre-tokenizer that is not known; parts that
// contradict each other.
TokenizerSpec parse_gguf(const gguf::File& file);

// Keys of a file for a model of `vocabulary` ids; ids without a token are unused ones. DataError: a tokenizer
// that GGUF has no words for.
gguf::Keys gguf_keys(const Tokenizer& tokenizer, std::int64_t vocabulary);

}  // namespace stoa::token
