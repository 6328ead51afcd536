// The way to another device and back, with the host itself as the other device.
#include "device/host/host_device.h"
#include "ops/attention_cases.h"
#include "ops/check/offload_backend.h"

namespace stoa::ops::testing {
namespace {

std::unique_ptr<OffloadBackend> make() {
  return std::make_unique<OffloadBackend>(std::make_unique<HostDevice>(),
                                          std::make_unique<ReferenceBackend>());
}

TEST(OffloadBackend, TensorsOfOneMatrixStayOne) {
  const auto backend = make();
  Tensors t;
  // In place, strided, and slices of one matrix.
  const AttentionForward op =
      make_attention(t, {"strided", 4, 2, 16, {{37, 37}}, true, 0, 0, 48}, DType::kBF16);
  expect_like_reference(*backend, op);
  run_reference(op);
  expect_like_reference(*backend, make_backward(t, op));
  ActivationForward act{ActivationKind::kSilu, false, t.random(DType::kF32, {70, 128}), {}};
  act.y = act.x;
  expect_like_reference(*backend, act);
  t.expect_guards();
}

// Writes one element too many.
class Careless final : public ReferenceBackend {
 public:
  using ReferenceBackend::execute;
  void execute(const FillZero& op, Resources) override { std::memset(op.y.data, 0, op.y.bytes() + 4); }
};

TEST(OffloadBackend, FindsWritesBehindATensor) {
  OffloadBackend backend(std::make_unique<HostDevice>(), std::make_unique<Careless>());
  Tensors t;
  EXPECT_THROW(run_on(backend, FillZero{t.random(DType::kF32, {9})}), NumericsError);
}

}  // namespace
}  // namespace stoa::ops::testing
