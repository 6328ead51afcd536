#include "cli/turns.h"

#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "cli/print.h"

namespace stoa::cli {

bool await_turn() {
  std::string line;
  return bool(std::getline(std::cin, line));
}

void tell_turn(std::int64_t step, double seconds) {
  print(nlohmann::json{{"step", step + 1}, {"seconds", seconds}}.dump() + "\n");
  require<IoError>(std::fflush(stdout) == 0, "cannot write to standard output");
}

}  // namespace stoa::cli
