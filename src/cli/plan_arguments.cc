#include "cli/plan_arguments.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "cli/schema.h"
#include "foreign/megatron/writing.h"

namespace stoa::cli {

plan::Cluster find_cluster(const std::string& name) {
  return plan::load_cluster(name, shipped_file("clusters"));
}

plan::Calibration find_calibration(const std::string& file) {
  if (file == "none") return {};
  return plan::load_calibration(file.empty() ? shipped_file("planner/calibration.yaml") : fs::path(file));
}

std::string command_line() {
  std::string out = "stoa";
  std::string_view rest;
  std::ifstream file("/proc/self/cmdline");  // words that end with a zero byte
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  rest = text;
  rest.remove_prefix(std::min(rest.find('\0') + 1, rest.size()));
  while (!rest.empty()) {
    const auto end = std::min(rest.find('\0'), rest.size());
    out += " " + foreign::shell_quoted(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return out;
}

}  // namespace stoa::cli
