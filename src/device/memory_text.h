// What memory is for, for people.
#pragma once

#include <string>

#include "device/arena.h"

namespace stoa {

// One line for each category that takes any, each after a line break: its name and its bytes.
std::string memory_lines(const MemoryTable& table);

}  // namespace stoa
