#include "cli/turns.h"

#include <nlohmann/json.hpp>
#include <string>

#include "cli/input_lines.h"
#include "cli/print.h"

namespace stoa::cli {

bool await_turn() {
  std::string line;
  return InputLines("").next(line);
}

void tell_turn(std::int64_t step, double seconds) {
  print_json_line(nlohmann::json{{"step", step + 1}, {"seconds", seconds}});
}

}  // namespace stoa::cli
