// The models of families and of the options by which they differ, in small: over threads in the tests of this
// folder, over processes in tests/processes.
#pragma once

#include <string_view>
#include <vector>

#include "layout_run.h"

namespace stoa::layouts {

struct FamilyRun {
  std::string_view name;
  TestRun run;  // 4 layers
};

const std::vector<FamilyRun>& family_runs();

TestRun family_run(std::string_view name);

// The layout with so many layers in its chunks, as even as they allow: some may get none.
run::Layout with_spread_layers(run::Layout layout, std::int64_t layers);

}  // namespace stoa::layouts
