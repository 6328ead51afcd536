// For benchmarks of programs that take turns (bench/turns.py): a step starts when a line arrives on standard
// input, and its end is reported as a line of JSON.
#pragma once

#include <cstdint>

namespace stoa::cli {

// Waits for a line; false at the end of the input. IoError if reading fails.
bool await_turn();
// `step` counts from 0. IoError if writing fails.
void tell_turn(std::int64_t step, double seconds);

}  // namespace stoa::cli
