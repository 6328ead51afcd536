#include "cli/turns.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/print.h"

namespace stoa::cli {

bool await_turn() {
  std::string line;
  return bool(std::getline(std::cin, line));
}

void tell_turn(std::int64_t step, double seconds) {
  print_json_line(nlohmann::json{{"step", step + 1}, {"seconds", seconds}});
}

}  // namespace stoa::cli
