// Programs that take turns (bench/turns.py): a step waits for a line of the standard input and is told as a
// line of JSON when it ended.
#pragma once

#include <cstdint>

namespace stoa::cli {

// False where the input ended; IoError where it cannot be read.
bool await_turn();
// Steps count from 0. IoError where it cannot be written.
void tell_turn(std::int64_t step, double seconds);

}  // namespace stoa::cli
