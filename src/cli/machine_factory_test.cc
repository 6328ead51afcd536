#include "cli/machine_factory.h"

#include <gmock/gmock.h>

namespace stoa::cli {
namespace {

TEST(MachineFactory, RefusesGraphsOfManyRanks) {
  try {
    make_machine({.backend = "cuda", .threads = 1, .ranks = 2, .cuda = "graphs"});
    FAIL();
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("graphs is for one rank, there are 2"));
  }
}

}  // namespace
}  // namespace stoa::cli
