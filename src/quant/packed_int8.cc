// Memory: codes [rows, columns], then an fp32 scale for every row.
#include <cstring>
#include <vector>

#include "quant/packed_formats.h"
#include "quant/packed_places.h"

namespace stoa::quant {
namespace {

class Int8Matrix final : public PackedMatrix {
 public:
  Int8Matrix(std::span<const float> numbers, std::int64_t columns)
      : columns_(columns), codes_(numbers.size()) {
    const auto width = static_cast<std::size_t>(columns);
    for (std::size_t begin = 0; begin < numbers.size(); begin += width) {
      const float scale = largest_magnitude(numbers.subspan(begin, width)) / 127;
      scales_.push_back(scale);
      const float inverse = scale == 0 ? 0 : 1 / scale;
      for (std::size_t i = begin; i < begin + width; ++i)
        codes_[i] =
            static_cast<std::int8_t>(std::clamp(std::nearbyint(numbers[i] * inverse), -127.0f, 127.0f));
    }
  }

  void copy(const PackedPart& part, const PackedShape& shape, std::byte* memory) const override {
    for (std::int64_t i = 0; i < part.rows; ++i)
      std::memcpy(memory + (part.memory_row + i) * shape.columns,
                  codes_.data() + (part.row + i) * columns_ + part.column,
                  static_cast<std::size_t>(part.columns));
    std::memcpy(memory + Int8Places(shape).scales + static_cast<std::size_t>(part.memory_row) * sizeof(float),
                scales_.data() + part.row, static_cast<std::size_t>(part.rows) * sizeof(float));
  }

 private:
  std::int64_t columns_;
  std::vector<std::int8_t> codes_;
  std::vector<float> scales_;
};

std::int64_t no_groups(std::int64_t, std::int64_t) { return 0; }

std::size_t int8_bytes(const PackedShape& shape) { return Int8Places(shape).end; }

std::unique_ptr<PackedMatrix> pack_int8(std::span<const float> numbers, std::int64_t columns) {
  return std::make_unique<Int8Matrix>(numbers, columns);
}

void unpack_int8(const PackedShape& shape, const std::byte* memory, const PackedRange& range,
                 const RowTarget& to, const RowKernels& kernels) {
  const auto* codes = reinterpret_cast<const std::int8_t*>(memory);
  const auto* scales = reinterpret_cast<const float*>(memory + Int8Places(shape).scales);
  const auto kernel = kernels.int8[static_cast<int>(to.type)];
  for (std::int64_t i = 0; i < range.rows; ++i)
    kernel({.codes = codes + (range.row + i) * shape.columns + range.column,
            .scale = scales[range.row + i],
            .count = range.columns},
           to.row(i));
}

}  // namespace

template <class T>
void plain_int8_row(const Int8Row& row, void* out) {
  for (std::int64_t j = 0; j < row.count; ++j)
    static_cast<T*>(out)[j] = T(static_cast<float>(row.codes[j]) * row.scale);
}

template void plain_int8_row<float>(const Int8Row&, void*);
template void plain_int8_row<bf16>(const Int8Row&, void*);
template void plain_int8_row<f16>(const Int8Row&, void*);

constinit const PackedFormat kPackedInt8{.kind = PackedKind::kInt8,
                                         .name = "int8",
                                         .block = 1,
                                         .groups = no_groups,
                                         .bytes = int8_bytes,
                                         .pack = pack_int8,
                                         .unpack = unpack_int8};

}  // namespace stoa::quant
