#include "cli/plan_arguments.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "cli/schema.h"
#include "foreign/megatron/writing.h"

namespace stoa::cli {

fs::path shipped_file(const char* name) {
  const fs::path presets = presets_directory();
  std::error_code error;
  require<ConfigError>(!presets.empty(),
                       "configs/{} is part of the program and is missing: it is searched for in configs or "
                       "share/stoa/configs in the directories above '{}'",
                       name, fs::read_symlink("/proc/self/exe", error).string());
  require<ConfigError>(fs::exists(presets / name, error), "'{}' is part of the program and is missing",
                       (presets / name).string());
  return presets / name;
}

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
