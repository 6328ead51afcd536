#include "ops/cuda/self_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "device/host/host_device.h"
#include "device/host/inline_stream.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/emulation/matmul.h"
#include "ops/reference/reference_backend.h"

namespace stoa::ops::testing {
namespace {

using cuda::KernelChoice;
using cuda::TrustedKernels;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr KernelChoice kAll{.warpgroup_blocks = 100};

// New memory is NaN. Counts; may fail where the host waits.
class CountingDevice final : public HostDevice {
 public:
  explicit CountingDevice(bool fails = false) : fails_(fails) {}
  std::string_view name() const override { return "an emulated GPU"; }
  Buffer allocate(std::size_t bytes) override {
    const std::size_t whole = (bytes + 4095) / 4096 * 4096;
    void* const data = std::aligned_alloc(4096, whole);
    std::memset(data, 0xff, whole);
    ++allocations, held += bytes;
    return Buffer(*this, data, bytes);
  }
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<Waits>(*this); }

  int allocations = 0, waits = 0;
  std::size_t held = 0;

 protected:
  void release(void* data, std::size_t bytes) noexcept override {
    std::free(data);
    held -= bytes;
  }

 private:
  class Waits final : public Stream {
   public:
    explicit Waits(CountingDevice& device) : device_(device) {}
    std::unique_ptr<Event> record() override { return std::make_unique<DoneEvent>(); }
    void wait(const Event&) override {}
    void synchronize() override {
      ++device_.waits;
      if (device_.fails_) fail<DeviceError>("an illegal instruction was encountered");
    }

   private:
    CountingDevice& device_;
  };
  const bool fails_;
};

// The reference, and kernels of which one is wrong.
template <class Broken>
class FaultyKernels final : public ForwardOps<FaultyKernels<Broken>> {
 public:
  using Fault = std::function<void(const Broken&)>;  // after it was computed
  explicit FaultyKernels(Fault fault) : fault_(std::move(fault)) {}
  std::string_view name() const override { return "faulty"; }
  DeviceKind device_kind() const override { return DeviceKind::kHost; }
  template <class Op>
  void apply(const Op& op, Resources resources) {
    const std::vector<std::byte> workspace(reference_.workspace_bytes(op) + 64);
    reference_.execute(op, Resources{resources.stream, const_cast<std::byte*>(workspace.data())});
    if constexpr (std::is_same_v<Op, Broken>)
      if (fault_) fault_(op);
  }
  template <class Op>
  std::size_t workspace(const Op&) const {
    return 0;
  }

 private:
  ReferenceBackend reference_;
  const Fault fault_;
};

// The fault is in kernels where is_used(kernels).
template <class Broken>
TrustedKernels check_with_fault(const std::function<void(const Broken&)>& fault,
                                bool (*is_used)(const KernelChoice&)) {
  CountingDevice device;
  TrustedKernels out = trusted_kernels(device, kAll, [&](const KernelChoice& kernels) {
    return std::make_unique<FaultyKernels<Broken>>(is_used(kernels) ? fault
                                                                    : std::function<void(const Broken&)>());
  });
  EXPECT_EQ(device.held, 0u);
  return out;
}

bool by_warpgroups(const KernelChoice& kernels) { return kernels.warpgroup_blocks > 0; }
bool always(const KernelChoice&) { return true; }

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const DeviceError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST(CudaSelfCheck, RightKernelsPass) {
  CountingDevice device;
  std::vector<int> blocks;
  const auto make = [&](const KernelChoice& kernels) {
    blocks.push_back(kernels.warpgroup_blocks);
    return std::make_unique<cuda::CudaBackend>(std::make_shared<cuda::emulation::HostMatmul>(), nullptr,
                                               DeviceKind::kHost, kernels);
  };
  for (const KernelChoice& wanted : {kAll, KernelChoice::plain()}) {
    const TrustedKernels found = trusted_kernels(device, wanted, make);
    EXPECT_EQ(found.kernels, wanted);
    EXPECT_THAT(found.complaints, ElementsAre());
    EXPECT_THAT(found.lost, ElementsAre());
  }
  EXPECT_THAT(blocks, ElementsAre(3, 0));
  EXPECT_EQ(device.allocations, 2);
  EXPECT_EQ(device.waits, 2);
  EXPECT_EQ(device.held, 0u);
}

TEST(CudaSelfCheck, ExpertsByWarpgroups) {
  const TrustedKernels found = check_with_fault<GroupedLinearForward>(
      [](const GroupedLinearForward& op) {
        if (op.y.dtype == DType::kF16) op.y.as<f16>()[1000] = f16(0.5f);
      },
      by_warpgroups);
  KernelChoice expected = kAll;
  expected.warpgroup_blocks = 0;
  EXPECT_EQ(found.kernels, expected);
  EXPECT_THAT(found.lost, ElementsAre("products of experts by warpgroups"));
  EXPECT_THAT(found.complaints,
              ElementsAre(AllOf(
                  HasSubstr("self-check of an emulated GPU: products of experts by warpgroups "
                            "gave element 1000 of y of grouped linear forward (fp16) = 0.5, expected "),
                  HasSubstr("tiles of warps, which are slower, take their place; please report this"))));
}

// The last element of gradients that are added to others; a row of nobody; memory beyond.
TEST(CudaSelfCheck, EveryElementCounts) {
  const auto adds = check_with_fault<GroupedLinearBackwardWeight>(
      [](const GroupedLinearBackwardWeight& op) {
        if (op.accumulate) op.dw.as<float>()[op.dw.elements() - 1] += 1;
      },
      by_warpgroups);
  EXPECT_THAT(adds.complaints,
              ElementsAre(HasSubstr("dw of grouped linear backward weight, added to others, (bf16)")));
  const auto nobody = check_with_fault<GroupedLinearBackwardInput>(
      [](const GroupedLinearBackwardInput& op) { std::memset(op.dx.slice(op.dx.rows() - 1, 1).data, 0, 2); },
      by_warpgroups);
  EXPECT_THAT(nobody.complaints, ElementsAre(HasSubstr("= 0, expected nan")));
  const auto beyond = check_with_fault<GroupedLinearForward>(
      [](const GroupedLinearForward& op) { *static_cast<char*>(op.y.byte_offset(op.y.elements())) = 0; },
      by_warpgroups);
  EXPECT_THAT(beyond.complaints,
              ElementsAre(HasSubstr("warpgroups wrote to memory that is not of its results")));
}

TEST(CudaSelfCheck, FewTokens) {
  const TrustedKernels found = check_with_fault<LinearForward>(
      [](const LinearForward& op) {
        if (op.y.dtype == DType::kF32) op.y.as<float>()[0] = std::nanf("");
      },
      always);
  EXPECT_FALSE(found.kernels.few_tokens);
  EXPECT_TRUE(found.kernels.few_queries && by_warpgroups(found.kernels));
  EXPECT_THAT(found.complaints,
              ElementsAre(AllOf(HasSubstr("products of few tokens gave"),
                                HasSubstr("element 0 of y of linear forward of 13 tokens (bf16) = nan"),
                                HasSubstr("cuBLASLt takes their place"))));
}

TEST(CudaSelfCheck, FewQueries) {
  const TrustedKernels found = check_with_fault<AttentionForward>(
      [](const AttentionForward& op) {
        if (op.segments.longest_k > 256) op.lse.as<float>()[0] += 0.5f;
      },
      [](const KernelChoice& kernels) { return kernels.few_queries; });
  EXPECT_FALSE(found.kernels.few_queries);
  EXPECT_TRUE(found.kernels.few_tokens && by_warpgroups(found.kernels));
  EXPECT_THAT(found.complaints,
              ElementsAre(AllOf(HasSubstr("GPU: attention of few queries gave"),
                                HasSubstr("a wrong lse of attention over 700 keys (bf16): element 0 is"))));
}

TEST(CudaSelfCheck, KernelsThatDoNotStart) {
  const TrustedKernels found = check_with_fault<GroupedLinearForward>(
      [](const GroupedLinearForward&) {
        fail<DeviceError>("launch of grouped linear forward: no kernel image");
      },
      by_warpgroups);
  EXPECT_FALSE(by_warpgroups(found.kernels));
  EXPECT_THAT(found.complaints,
              ElementsAre(HasSubstr("could not start: launch of grouped linear forward: no kernel image")));
}

// Nothing is left to fall back to.
TEST(CudaSelfCheck, WrongInEveryWay) {
  const std::string error = error_of([] {
    check_with_fault<GroupedLinearForward>(
        [](const GroupedLinearForward& op) { std::memset(op.y.data, 0, 2); }, always);
  });
  EXPECT_THAT(error, AllOf(HasSubstr("an emulated GPU cannot be used: products of experts gave element 0 of "
                                     "y of grouped linear forward "
                                     "(bf16) = 0, expected"),
                           HasSubstr("no other kernel computes this"), HasSubstr("please report this")));
}

TEST(CudaSelfCheck, DeviceThatFails) {
  const auto error = [](const KernelChoice& wanted) {
    return error_of([&] {
      CountingDevice device(true);
      trusted_kernels(device, wanted,
                      [](const KernelChoice&) { return std::make_unique<FaultyKernels<FillZero>>(nullptr); });
    });
  };
  EXPECT_THAT(error(kAll), HasSubstr("self-check of an emulated GPU failed: an illegal instruction was "
                                     "encountered; --cuda plain-kernels may avoid it; please report"));
  EXPECT_THAT(error(KernelChoice::plain()), ::testing::Not(HasSubstr("may avoid")));
}

}  // namespace stoa::ops::testing
