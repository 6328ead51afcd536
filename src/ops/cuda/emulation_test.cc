// What the block emulator says of kernels that would be wrong on a GPU.
#include <gtest/gtest.h>

#include <array>

#include "ops/cuda/kernels/launch.h"

namespace stoa::ops::cuda {
namespace {

struct CopyArgs {
  const Bytes16* from;
  Bytes16* to;
};

// Two groups of copies to shared memory; reads both places when at most kLeft groups are under way.
template <int kLeft>
struct CopyKernel {
  using Args = CopyArgs;
  static constexpr const char* kName = "copy";
  static constexpr int kThreads = 32;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    Bytes16* shared = t.shared<Bytes16>() + 2 * t.index();
    t.copy16(shared, a.from + t.index(), true);
    t.commit_copies();
    t.copy16(shared + 1, a.from + t.index(), t.index() % 2 == 0);
    t.commit_copies();
    t.wait_copies<kLeft>();
    for (int i = 0; i < 2; ++i) store16(a.to + 2 * t.index() + i, load16(shared + i));
    if (t.index() > 0) t.wait_copies<0>();
  }
};

TEST(Emulation, CopiesAreThereWhenTheyWereWaitedFor) {
  std::array<Bytes16, 32> from;
  std::array<Bytes16, 64> to;
  for (std::uint32_t i = 0; i < 32; ++i) from[i] = {{i, i + 1, i + 2, i + 3}};
  launch<CopyKernel<0>>({.threads = 32, .shared = 1024}, nullptr, {from.data(), to.data()});
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(to[2 * i].words[1], i + 1);
    EXPECT_EQ(to[2 * i + 1].words[1], i % 2 == 0 ? i + 1 : 0);  // zeros where nothing was given
  }
}

TEST(Emulation, CopiesUnderWayArePoisonAndMustBeWaitedFor) {
  std::array<Bytes16, 32> from{};
  std::array<Bytes16, 64> to;
  try {
    launch<CopyKernel<1>>({.threads = 32, .shared = 1024}, nullptr, {from.data(), to.data()});
    FAIL() << "thread 0 waits for one of two copies";
  } catch (const InternalError& error) {
    EXPECT_NE(std::string(error.what()).find("ended with 1 copies under way"), std::string::npos)
        << error.what();
  }
  for (std::size_t i = 0; i < 32; ++i) {
    EXPECT_EQ(to[2 * i].words[0], 0u);
    EXPECT_EQ(to[2 * i + 1].words[0], 0xffffffffu);
  }
}

}  // namespace
}  // namespace stoa::ops::cuda
