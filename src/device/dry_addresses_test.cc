#include <gtest/gtest.h>

#include "device/meta/meta_device.h"
#include "device/scratch.h"

namespace stoa {
namespace {

std::uintptr_t address(const void* data) { return reinterpret_cast<std::uintptr_t>(data); }

// Of a plan of any size: an attention's output in scratch was refused as "one memory" with the values of a
// cache where both happened to lie as far from the beginning.
TEST(DryAddresses, OfScratchAreNoneOfADevice) {
  constexpr std::size_t kPetabyte = std::size_t{1} << 50;
  MetaDevice device;
  const Buffer first = device.allocate(1), last = device.allocate(kPetabyte);
  Scratch scratch;
  Scratch::Frame frame(scratch);
  const std::uintptr_t begin = address(scratch.allocate_bytes(kPetabyte)),
                       end = address(scratch.allocate_bytes(1)) + 1;
  EXPECT_TRUE(end <= address(first.data()) || address(last.data()) + kPetabyte <= begin);
}

}  // namespace
}  // namespace stoa
