#include "nn/offload_ring.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>

#include "comm/queue_stream.h"
#include "device/host/host_device.h"

namespace stoa::nn {
namespace {

using comm::suite::QueueStream, comm::suite::QueueTransfer;

// Its streams are threads: what no event orders happens in any order, and copies take their time.
class SlowDevice final : public HostDevice {
 public:
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<QueueStream>(); }
  void copy(void* to, const void* from, std::size_t bytes, Stream& stream) override {
    transfer_.copy(to, from, bytes, stream);
  }

 private:
  QueueTransfer transfer_;
};

struct Size {
  int blocks, microbatches;
};

// The passes of 1F1B over `blocks` blocks of which all are offloaded; `ahead` forward passes come first. How
// many blocks did not find what they had saved.
int blocks_that_lost(const Size& size, int ahead, bool split) {
  constexpr std::size_t kBytes = 4096;
  SlowDevice device;
  Arena arena(device);
  OffloadRing ring(arena, size.blocks, kBytes);
  std::vector<Arena::Id> ids;
  for (int i = 0; i < size.blocks * size.microbatches; ++i)
    ids.push_back(arena.declare(MemoryCategory::kOffloaded, {"offloaded", DType::kU8, Shape{kBytes}}));
  arena.commit();
  std::vector<Offloaded> saved(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) saved[i].host = arena.view(ids[i]);
  std::atomic<int> lost = 0;
  QueueStream compute;
  const auto of = [&](int microbatch, int block) -> Offloaded& {
    return saved[static_cast<std::size_t>(microbatch * size.blocks + block)];
  };
  const auto forward = [&](int m) {
    TensorView next = ring.open(of(m, 0), compute);
    for (int b = 0; b < size.blocks; ++b) {
      const TensorView here = next;
      if (b + 1 < size.blocks) next = ring.open(of(m, b + 1), compute);
      compute.submit([=] { std::memset(here.data, m * size.blocks + b + 1, kBytes); });
      ring.store(of(m, b), compute);
    }
  };
  const auto backward = [&](int m) {
    int fetched = size.blocks;
    const auto fetch = [&] {
      if (fetched > 0) ring.fetch(of(m, --fetched));
    };
    for (int i = 0; i < ring.places(); ++i) fetch();
    for (int b = size.blocks; b-- > 0;) {
      const TensorView here = ring.await(of(m, b), compute);
      compute.submit([=, &lost] {
        const auto* bytes = here.as<std::uint8_t>();
        lost += std::any_of(bytes, bytes + kBytes, [&](int x) { return x != m * size.blocks + b + 1; });
        std::memset(here.data, 0xff, kBytes);  // backward may write where it has read
      });
      ring.release(of(m, b), compute);
      fetch();
    }
  };
  for (int m = 0; m < size.microbatches + ahead; ++m) {
    if (m < size.microbatches) forward(m);
    for (int pass = 0; m >= ahead && pass < (split ? 2 : 1); ++pass) backward(m - ahead);
  }
  compute.synchronize();
  return lost;
}

TEST(OffloadRing, EventsAloneKeepWhatWasSaved) {
  for (const Size size : {Size{1, 4}, Size{2, 4}, Size{3, 4}, Size{7, 5}})
    for (const int ahead : {0, 1, 3})
      for (const bool split : {false, true})
        EXPECT_EQ(blocks_that_lost(size, ahead, split), 0)
            << size.blocks << " blocks, " << ahead << " ahead" << (split ? ", split" : "");
}

}  // namespace
}  // namespace stoa::nn
