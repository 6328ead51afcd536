// What the block emulator says of kernels that would be wrong on a GPU.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <vector>

#include "ops/cuda/kernels/launch.h"
#include "ops/cuda/kernels/warpgroup.h"

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

struct WaitArgs {
  int missing;                 // thread that leaves instead of waiting
  const unsigned char* bytes;  // what that thread reads before it leaves; null: nothing
  int* sums;                   // one per thread
};

// Two exchanges of every warp and a barrier between them.
template <bool kOfWarp>
struct WaitKernel {
  using Args = WaitArgs;
  static constexpr const char* kName = "wait";
  static constexpr int kThreads = 64;
  STOA_DEVICE static void run(const Thread& t, const Args& a) {
    int sum = t.shuffle_xor(t.index(), 1);
    if (t.index() == a.missing) {
      if (a.bytes) load16(a.bytes);
      return;
    }
    if (kOfWarp)
      t.sync_warp();
    else
      t.sync();
    sum += t.shuffle_xor(t.index(), 31);
    a.sums[t.index()] = sum;
  }
};

template <bool kOfWarp>
std::string error_of_waits(int missing, const unsigned char* bytes = nullptr) {
  std::array<int, 64> sums{};
  try {
    launch<WaitKernel<kOfWarp>>({.threads = 64}, nullptr, {missing, bytes, sums.data()});
  } catch (const InternalError& error) {
    return error.what();
  }
  for (int i = 0; i < 64; ++i) EXPECT_EQ(sums[static_cast<std::size_t>(i)], (i ^ 1) + (i ^ 31)) << i;
  return "";
}

TEST(Emulation, ThreadsThatDoNotWaitAreErrors) {
  EXPECT_EQ(error_of_waits<false>(-1), "");
  EXPECT_EQ(error_of_waits<true>(-1), "");
  for (const int missing : {0, 5, 31, 32, 63}) {
    EXPECT_NE(error_of_waits<true>(missing).find("not all threads reach an exchange of their warp"),
              std::string::npos)
        << missing;
    EXPECT_NE(error_of_waits<false>(missing).find("not all threads reach"), std::string::npos) << missing;
  }
}

TEST(Emulation, ErrorsOfAThreadComeThrough) {
  alignas(16) const unsigned char bytes[32] = {};
  for (const int thread : {0, 5, 31, 32, 63})
    EXPECT_NE(error_of_waits<false>(thread, bytes + 4).find("a 16-byte access at address"), std::string::npos)
        << thread;
  EXPECT_EQ(error_of_waits<false>(-1), "") << "after an error";
}

enum class Fault { kNone, kNoFence, kNoRegisterFence, kOverwrites, kReadsEarly, kNoWait };
struct ProductArgs {
  const bf16 *a, *b;  // [64, 64] and [256, 64]
  float* out;         // [64, 256]
};

// One product of a warpgroup: elements 16 to 31 of every vector.
template <Fault kFault>
struct ProductKernel {
  using Args = ProductArgs;
  static constexpr const char* kName = "product";
  static constexpr int kThreads = 128;
  static constexpr std::size_t kShared = 1024 + (64 + 256) * 128;
  STOA_DEVICE static void run(const Thread& t, const Args& args) {
    auto* shared = t.shared<unsigned char>();
    shared += 1024 - shared_address(t, shared) % 1024;
    const auto copy = [&](const bf16* from, int rows, unsigned char* to) {
      for (int i = t.index(); i < rows * 8; i += 128) {
        const int r = i / 8, c = i % 8;
        t.copy16(to + r * 128 + ((c ^ (r & 7)) << 4), from + r * 64 + c * 8, true);
      }
    };
    copy(args.a, 64, shared);
    copy(args.b, 256, shared + 8192);
    t.commit_copies();
    t.wait_copies<0>();
    if (kFault != Fault::kNoFence) fence_for_products(t);
    t.sync();
    float sums[128] = {};
    if (kFault != Fault::kNoRegisterFence) fence_sums(t, sums);
    // Start, leading dimension of 16 bytes (not used), 1024 bytes between eights of rows, swizzle of 128
    // bytes.
    const auto descriptor = [](std::uint32_t at) {
      return (at + 32) / 16 | 1ull << 16 | 64ull << 32 | 1ull << 62;
    };
    const std::uint32_t at = shared_address(t, shared);
    multiply_shared<bf16, false, false>(t, descriptor(at), descriptor(at + 8192), sums);
    commit_products(t);
    if (kFault == Fault::kOverwrites) {
      t.copy16(shared + 8192 + t.index() * 128 + 48, args.a, true);
      t.wait_copies<0>();
    }
    if (kFault == Fault::kReadsEarly) args.out[t.index()] = sums[0];
    if (kFault == Fault::kNoWait) return;
    wait_sums(t, sums);
    if (kFault == Fault::kReadsEarly) return;
    for (int i = 0; i < 128; ++i) {
      const int row = t.warp() * 16 + t.lane() / 4 + i / 2 % 2 * 8,
                column = i / 4 * 8 + t.lane() % 4 * 2 + i % 2;
      args.out[row * 256 + column] = sums[i];
    }
  }
};

template <Fault kFault>
std::string error_of_product(std::vector<float>& out) {
  std::vector<bf16> a(64 * 64), b(256 * 64);
  for (int i = 0; i < 64 * 64; ++i) a[i] = bf16(static_cast<float>(i * 7 % 23 - 11));
  for (int i = 0; i < 256 * 64; ++i) b[i] = bf16(static_cast<float>(i * 5 % 17 - 8));
  out.assign(64 * 256, 0);
  try {
    launch<ProductKernel<kFault>>({.threads = 128, .shared = ProductKernel<kFault>::kShared}, nullptr,
                                  {a.data(), b.data(), out.data()});
  } catch (const InternalError& error) {
    return error.what();
  }
  if (kFault != Fault::kNone) return "";
  for (int i = 0; i < 64; ++i)
    for (int j = 0; j < 256; ++j) {
      float sum = 0;
      for (int k = 16; k < 32; ++k)
        sum += static_cast<float>(a[i * 64 + k]) * static_cast<float>(b[j * 64 + k]);
      EXPECT_EQ(out[i * 256 + j], sum) << i << " " << j;
    }
  return "";
}

TEST(Emulation, ProductsOfWarpgroups) {
  std::vector<float> out;
  EXPECT_EQ(error_of_product<Fault::kNone>(out), "");
  EXPECT_EQ(error_of_product<Fault::kNoFence>(out), "");
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out.back())) << "copies that were not fenced are not seen";
  EXPECT_EQ(error_of_product<Fault::kReadsEarly>(out), "");
  EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[127])) << "sums are read before they were waited for";
  const auto expect_error = [](const std::string& error, const char* part) {
    EXPECT_NE(error.find(part), std::string::npos) << error;
  };
  expect_error(error_of_product<Fault::kNoRegisterFence>(out), "without a fence of its registers");
  expect_error(error_of_product<Fault::kOverwrites>(out), "was changed meanwhile");
  expect_error(error_of_product<Fault::kNoWait>(out), "ended with 1 products under way");
}

}  // namespace
}  // namespace stoa::ops::cuda
