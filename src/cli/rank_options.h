// The options of commands that run ranks: their number, checks of their communication, core binding.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "run/layout.h"
#include "train/launch.h"

namespace CLI {
class App;
}

namespace stoa::cli {

struct RankOptions {
  std::optional<std::int64_t> count = {};  // none: as the configuration or the launcher says
#ifdef NDEBUG
  bool check = false;
#else
  bool check = true;
#endif
  bool bind_cores = false;

  // Options whose values are written here: this must outlive `command`.
  // `otherwise`: how many ranks run where neither they nor a launcher say.
  void add_to(CLI::App& command, const std::string& otherwise = "trainer.devices x num_nodes");
  train::LaunchOptions launch_options(const run::Layout& layout) const;
};

}  // namespace stoa::cli
