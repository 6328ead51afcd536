#include "cli/machine_factory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "device/no_device_error.h"

namespace stoa::cli {
namespace {

using ::testing::HasSubstr;

// A plan for a GPU needs none; but that the one here is broken is said.
TEST(PlanningMachine, SaysWhyTheGpuWasNotAsked) {
  const MachineOptions options{.backend = "cuda", .threads = 1};
  const auto description = [&](const infer::MakeMachine& make_gpu) {
    const infer::Machine machine = make_planning_machine(options, make_gpu);
    EXPECT_EQ(machine.device->kind(), DeviceKind::kMeta);
    return machine.description;
  };
  EXPECT_THAT(description([]() -> infer::Machine { throw NoDeviceError("no driver"); }),
              HasSubstr("there is none here to ask"));
  EXPECT_THAT(description([]() -> infer::Machine { throw DeviceError("self-check of H100 failed: NaN"); }),
              HasSubstr("the one here cannot be used"));
}

}  // namespace
}  // namespace stoa::cli
