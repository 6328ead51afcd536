#include "ops/op_test_util.h"

namespace stoa::ops::testing {
namespace {

constexpr std::size_t kGuard = 128;
constexpr unsigned char kPattern = 0xa5;

void expect_pattern(const AlignedBytes& memory, const TensorView& view, std::size_t begin, std::size_t end) {
  const auto* bytes = static_cast<const unsigned char*>(memory.data());
  for (std::size_t i = begin; i < end; ++i) {
    if (bytes[i] == kPattern) continue;
    ADD_FAILURE() << "byte " << static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(kGuard) << " of "
                  << view.text() << " was written: outside of its rows";
    return;
  }
}

}  // namespace

Tensors::Tensors(std::uint64_t seed) : key_(philox_key(seed, RandomPurpose::kTest, "ops")) {}

TensorView Tensors::empty(DType type, Shape shape, std::int64_t gap) {
  const std::int64_t stride = shape.inner() + gap;
  const std::size_t bytes =
      static_cast<std::size_t>(std::max<std::int64_t>(1, shape[0] * stride)) * size_of(type);
  blocks_.push_back(Block{std::make_unique<AlignedBytes>(bytes + 2 * kGuard), bytes + 2 * kGuard, {}});
  Block& block = blocks_.back();
  std::memset(block.memory->data(), kPattern, block.bytes);
  TensorView out(static_cast<std::byte*>(block.memory->data()) + kGuard, type, shape);
  out.stride0 = stride;
  for (std::int64_t r = 0; r < out.rows(); ++r)
    std::memset(out.byte_offset(r * stride), 0xff, static_cast<std::size_t>(shape.inner()) * size_of(type));
  block.view = out;
  return out;
}

TensorView Tensors::zeros(DType type, Shape shape, std::int64_t gap) {
  const TensorView out = empty(type, shape, gap);
  store(Values(static_cast<std::size_t>(out.elements())), out);
  return out;
}

TensorView Tensors::random(DType type, Shape shape, double scale, std::int64_t gap, double mean) {
  const TensorView out = empty(type, shape, gap);
  Values values(static_cast<std::size_t>(out.elements()));
  for (double& x : values) x = mean + scale * draw();
  store(values, out);
  return out;
}

TensorView Tensors::of(DType type, Shape shape, const Values& values) {
  const TensorView out = empty(type, shape);
  store(values, out);
  return out;
}

TensorView Tensors::int32(const std::vector<std::int32_t>& values) {
  const TensorView out = empty(DType::kI32, {static_cast<std::int64_t>(values.size())});
  std::memcpy(out.data, values.data(), values.size() * 4);
  return out;
}

TensorView Tensors::int64(const std::vector<std::int64_t>& values) {
  const TensorView out = empty(DType::kI64, {static_cast<std::int64_t>(values.size())});
  std::memcpy(out.data, values.data(), values.size() * 8);
  return out;
}

TensorView Tensors::random_int32(std::int64_t count, std::int64_t limit) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  for (auto& x : values)
    x = static_cast<std::int32_t>(philox_word(key_, 1u << 30 | next_++) % static_cast<std::uint64_t>(limit));
  return int32(values);
}

TensorView Tensors::copy(const TensorView& from) {
  const TensorView out = empty(from.dtype, from.shape, from.stride0 - from.shape.inner());
  for (std::int64_t r = 0; r < from.rows(); ++r)
    std::memcpy(out.byte_offset(r * out.stride0), from.byte_offset(r * from.stride0),
                static_cast<std::size_t>(from.shape.inner()) * size_of(from.dtype));
  return out;
}

TensorView Tensors::state(double loss_scale, double updates) {
  const TensorView out = zeros(DType::kF64, {static_cast<std::int64_t>(StepSlot::kCount)});
  slot(out, StepSlot::kLossScale) = loss_scale;
  slot(out, StepSlot::kUpdates) = updates;
  slot(out, StepSlot::kHysteresis) = 2;
  return out;
}

void Tensors::expect_guards() const {
  for (const Block& block : blocks_) {
    const TensorView& v = block.view;
    const std::size_t row = static_cast<std::size_t>(v.shape.inner()) * size_of(v.dtype);
    const std::size_t stride = static_cast<std::size_t>(v.stride0) * size_of(v.dtype);
    expect_pattern(*block.memory, v, 0, kGuard);
    std::size_t begin = kGuard;
    for (std::int64_t r = 0; r < v.rows(); ++r, begin += stride)
      expect_pattern(*block.memory, v, begin + row, begin + stride);
    expect_pattern(*block.memory, v, begin, block.bytes);
  }
}

// Sum of four uniform numbers, of mean 0 and deviation 1.
double Tensors::draw() {
  const std::uint64_t i = next_++;
  double sum = -2;
  for (std::uint32_t word :
       philox4x32(key_, {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), 0, 0}))
    sum += static_cast<double>(uniform_from_word(word));
  return sum * 1.7320508075688772;
}

}  // namespace stoa::ops::testing
