// Matrices in the numbers of quantised files, for tests of products with them.
#pragma once

#include "ops/op_test_util.h"
#include "quant/matrix_layout.h"

namespace stoa::ops::testing {

using quant::BlockType;

constexpr BlockType kQuantisedTypes[] = {BlockType::kQ8_0,   BlockType::kQ4_0, BlockType::kQ4_1,
                                         BlockType::kQ5_0,   BlockType::kQ5_1, BlockType::kQ4_K,
                                         BlockType::kQ5_K,   BlockType::kQ6_K, BlockType::kIQ4_NL,
                                         BlockType::kIQ4_XS, BlockType::kMXFP4};

// Random numbers in the format of each part.
inline TensorView quantised(Tensors& t, const quant::MatrixShape& shape) {
  const TensorView out = t.empty(DType::kU8, {shape.bytes()});
  auto* memory = static_cast<std::byte*>(out.data);
  for (int p = 0; p < shape.count; ++p) {
    const quant::MatrixPart& part = shape.parts[static_cast<std::size_t>(p)];
    const quant::BlockFormat& format = quant::format_of(part.type);
    const Values values = load(t.random(DType::kF32, {part.rows, shape.columns}, 0.1, 0, 0.01));
    const std::vector<float> numbers(values.begin(), values.end());
    std::vector<std::byte> blocks(static_cast<std::size_t>(part.rows * format.row_bytes(shape.columns)));
    quant::encode_numbers(format, numbers.data(), part.rows * shape.columns, nullptr, blocks.data());
    quant::pack_groups(
        part, shape.columns,
        [&](std::int64_t row) { return blocks.data() + row * format.row_bytes(shape.columns); }, 0,
        part.groups(), memory);
    memory += part.bytes(shape.columns);
  }
  return out;
}

}  // namespace stoa::ops::testing
