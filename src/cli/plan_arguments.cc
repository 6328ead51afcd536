#include "cli/plan_arguments.h"

#include "cli/schema.h"

namespace stoa::cli {

plan::Cluster find_cluster(const std::string& name) {
  return plan::load_cluster(name, presets_directory() / "clusters");
}

}  // namespace stoa::cli
