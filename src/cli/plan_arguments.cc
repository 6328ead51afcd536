#include "cli/plan_arguments.h"

#include "cli/schema.h"

namespace stoa::cli {

plan::Cluster find_cluster(const std::string& name) {
  return plan::load_cluster(name, presets_directory() / "clusters");
}

plan::Calibration find_calibration(const std::string& file) {
  if (file == "none") return {};
  return plan::load_calibration(file.empty() ? presets_directory() / "planner" / "calibration.yaml"
                                             : fs::path(file));
}

}  // namespace stoa::cli
