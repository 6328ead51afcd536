// Texts of random tokens, for runs on samples of chats.
#pragma once

#include <cstdint>

#include "data/numpy_random.h"
#include "tune/encoded.h"

namespace stoa::layouts {

constexpr std::int64_t kLength = 12;  // of a row of samples

// Its second half is trained.
inline tune::EncodedText text_of(data::NumpyRandom& random, std::int64_t length) {
  tune::EncodedText text;
  for (std::int64_t i = 0; i < length; ++i) {
    text.tokens.push_back(static_cast<token::TokenId>(random.interval(60)));
    text.trained.push_back(i >= length / 2);
  }
  return text;
}

}  // namespace stoa::layouts
