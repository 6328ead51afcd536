// Which of many similar cases an ordinary run of the tests looks at: one in eight, always the same ones. With
// STOA_WHOLE set all of them (tests/slow/keys.sh).
#pragma once

#include <cstdlib>
#include <string_view>

#include "base/checksum.h"

namespace stoa::keys {

inline bool is_sampled(std::string_view name) {
  return std::getenv("STOA_WHOLE") != nullptr || checksum(name) % 8 == 0;
}

}  // namespace stoa::keys
