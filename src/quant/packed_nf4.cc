// Memory: codes of numbers, two in a byte, the first in the high half; codes of the magnitudes of blocks; for
// every row (int32) the number of its first block among those of all groups; and for every group of blocks
// two fp32 numbers, the scale of its magnitudes and their mean.
#include <array>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "quant/packed_formats.h"
#include "quant/packed_places.h"

namespace stoa::quant {
namespace {

class Nf4Matrix final : public PackedMatrix {
 public:
  Nf4Matrix(std::span<const float> numbers, std::int64_t columns)
      : columns_(columns), codes_(numbers.size() / 2) {
    require<InternalError>(columns % kNf4Block == 0, "{} columns are not whole blocks of {}", columns,
                           kNf4Block);
    std::vector<float> magnitudes;
    double sum = 0;
    for (std::size_t begin = 0; begin < numbers.size(); begin += kNf4Block) {
      const float largest = largest_magnitude(numbers.subspan(begin, kNf4Block));
      magnitudes.push_back(largest);
      sum += static_cast<double>(largest);
      const float inverse = largest == 0 ? 0 : 1 / largest;
      for (std::size_t i = begin; i < begin + kNf4Block; i += 2)
        codes_[i / 2] = static_cast<std::uint8_t>(nearest_nf4(numbers[i] * inverse) << 4 |
                                                  nearest_nf4(numbers[i + 1] * inverse));
    }
    pack_magnitudes(magnitudes, static_cast<float>(sum / static_cast<double>(magnitudes.size())));
  }

  void copy(const PackedPart& part, const PackedShape& shape, std::byte* memory) const override {
    const Nf4Places at(shape);
    const std::int64_t blocks = part.columns / kNf4Block;
    for (std::int64_t i = 0; i < part.rows; ++i) {
      const std::int64_t row = part.row + i, to = part.memory_row + i;
      std::memcpy(memory + to * shape.columns / 2, codes_.data() + (row * columns_ + part.column) / 2,
                  static_cast<std::size_t>(part.columns / 2));
      const std::int64_t block = (row * columns_ + part.column) / kNf4Block;
      std::memcpy(memory + at.magnitudes + to * blocks, magnitudes_.data() + block,
                  static_cast<std::size_t>(blocks));
      const auto first = static_cast<std::int32_t>(part.memory_group * kNf4Group + block);
      std::memcpy(memory + at.first + static_cast<std::size_t>(to) * sizeof(first), &first, sizeof(first));
    }
    std::memcpy(memory + at.groups + part.memory_group * Nf4Places::kGroupBytes, groups_.data(),
                groups_.size() * sizeof(float));
  }

 private:
  void pack_magnitudes(std::vector<float>& magnitudes, float mean) {
    for (float& magnitude : magnitudes) magnitude -= mean;
    for (std::size_t begin = 0; begin < magnitudes.size(); begin += kNf4Group) {
      const auto group = std::span<const float>(magnitudes)
                             .subspan(begin, std::min<std::size_t>(kNf4Group, magnitudes.size() - begin));
      const float scale = largest_magnitude(group), inverse = scale == 0 ? 0 : 1 / scale;
      groups_.push_back(scale);
      groups_.push_back(mean);
      for (const float x : group) magnitudes_.push_back(nearest_dynamic(x * inverse));
    }
  }

  std::int64_t columns_;
  std::vector<std::uint8_t> codes_, magnitudes_;
  std::vector<float> groups_;
};

std::int64_t nf4_groups(std::int64_t rows, std::int64_t columns) {
  return (rows * columns / kNf4Block + kNf4Group - 1) / kNf4Group;
}

std::size_t nf4_bytes(const PackedShape& shape) { return Nf4Places(shape).end; }

std::unique_ptr<PackedMatrix> pack_nf4(std::span<const float> numbers, std::int64_t columns) {
  return std::make_unique<Nf4Matrix>(numbers, columns);
}

void unpack_nf4(const PackedShape& shape, const std::byte* memory, const PackedRange& range,
                const RowTarget& to, const RowKernels& kernels) {
  const Nf4Places at(shape);
  const auto* codes = reinterpret_cast<const std::uint8_t*>(memory);
  const auto* magnitudes = reinterpret_cast<const std::uint8_t*>(memory + at.magnitudes);
  const auto* first = reinterpret_cast<const std::int32_t*>(memory + at.first);
  const auto kernel = kernels.nf4[static_cast<int>(to.type)];
  for (std::int64_t i = 0; i < range.rows; ++i) {
    const std::int64_t row = range.row + i;
    kernel({.pairs = codes + row * shape.columns / 2,
            .magnitudes = magnitudes + row * (shape.columns / kNf4Block),
            .groups = reinterpret_cast<const float*>(memory + at.groups),
            .first = first[row],
            .values = nf4_values().data(),
            .dynamic = dynamic_values().data(),
            .begin = range.column,
            .count = range.columns},
           to.row(i));
  }
}

}  // namespace

template <class T>
void plain_nf4_row(const Nf4Row& row, void* out) {
  auto* to = static_cast<T*>(out);
  const std::int64_t end = row.begin + row.count;
  for (std::int64_t j = row.begin; j < end;) {
    const std::int64_t block = j / kNf4Block, block_end = std::min(end, (block + 1) * kNf4Block);
    const float* group = row.groups + (row.first + block) / kNf4Group * 2;
    const float magnitude = row.dynamic[row.magnitudes[block]] * group[0] + group[1];
    std::array<T, 16> numbers;
    for (std::size_t c = 0; c < 16; ++c) numbers[c] = T(row.values[c] * magnitude);
    for (; j < block_end; ++j) *to++ = numbers[j % 2 == 0 ? row.pairs[j / 2] >> 4 : row.pairs[j / 2] & 15];
  }
}

template void plain_nf4_row<float>(const Nf4Row&, void*);
template void plain_nf4_row<bf16>(const Nf4Row&, void*);
template void plain_nf4_row<f16>(const Nf4Row&, void*);

constinit const PackedFormat kPackedNf4{.kind = PackedKind::kNf4,
                                        .name = "nf4",
                                        .block = kNf4Block,
                                        .groups = nf4_groups,
                                        .bytes = nf4_bytes,
                                        .pack = pack_nf4,
                                        .unpack = unpack_nf4};

}  // namespace stoa::quant
