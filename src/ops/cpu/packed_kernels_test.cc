// Kernels of every instruction set write the bits that those without vectors write.
#include "ops/cpu/packed_kernels.h"

#include <gtest/gtest.h>

#include "base/philox.h"
#include "ops/cpu/instruction_set.h"
#include "quant/unpack_rows.h"

namespace stoa::ops::cpu {
namespace {

constexpr std::int64_t kPackedRows = 9, kPackedColumns = 320;

std::vector<std::byte> packed_memory(const quant::PackedShape& shape) {
  const PhiloxKey key = philox_key(7, RandomPurpose::kTest, "packed kernels");
  std::vector<float> numbers(kPackedRows * kPackedColumns);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(philox_normal(key, i));
  // A block of zeros, one of numbers that bf16 and fp16 cannot hold as normal ones, one that fp16 cannot
  // hold.
  for (std::size_t i = 0; i < 64; ++i) {
    numbers[i] = 0;
    numbers[kPackedColumns + i] *= 1e-39f;
    numbers[2 * kPackedColumns + i] *= 1e6f;
  }
  std::vector<std::byte> memory(shape.bytes());
  quant::packed_format(shape.kind)
      .pack(numbers, kPackedColumns)
      ->copy({.rows = kPackedRows, .columns = kPackedColumns}, shape, memory.data());
  return memory;
}

TEST(PackedKernels, WriteTheSameBits) {
  for (const quant::PackedKind kind : {quant::PackedKind::kInt8, quant::PackedKind::kNf4}) {
    const quant::PackedShape shape = quant::whole_shape(kind, kPackedRows, kPackedColumns);
    const std::vector<std::byte> memory = packed_memory(shape);
    for (int isa = 0; isa <= static_cast<int>(best_instruction_set()); ++isa) {
      const auto& kernels = STOA_KERNELS(static_cast<InstructionSet>(isa), packed_kernels);
      for (const quant::RowType type : {quant::RowType::kF32, quant::RowType::kBF16, quant::RowType::kF16})
        // Parts that begin and end within blocks, vectors and bytes.
        for (const auto& [column, columns] : {std::pair(0, 320), std::pair(64, 128), std::pair(32, 32),
                                              std::pair(63, 2), std::pair(5, 301), std::pair(319, 1)}) {
          SCOPED_TRACE(::testing::Message()
                       << "kind " << static_cast<int>(kind) << " set " << isa << " type "
                       << static_cast<int>(type) << " columns " << column << " + " << columns);
          const auto unpacked = [&](const quant::RowKernels& with) {
            // Nothing is written beyond the range.
            std::vector<std::byte> out(static_cast<std::size_t>((kPackedRows * columns + 5) * 4),
                                       std::byte{0x5a});
            quant::unpack_rows(shape, memory.data(),
                               {.row = 1, .rows = kPackedRows - 1, .column = column, .columns = columns},
                               with, type, out.data(), columns);
            return out;
          };
          ASSERT_EQ(unpacked(kernels), unpacked(quant::plain_row_kernels()));
        }
    }
  }
}

}  // namespace
}  // namespace stoa::ops::cpu
