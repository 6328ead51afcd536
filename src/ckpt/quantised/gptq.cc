// GPTQ and AWQ: [inputs, outputs] of 4 bits (GPTQ: 2, 4 or 8) in 32-bit words, groups of inputs with a scale
// and a zero for each output.
//
//   GPTQ  qweight [K b / 32, N], packed along K, lowest bits first; qzeros [G, N b / 32] along N; scales [G,
//   N];
//         g_idx [K], the group of each input (act-order), else k / group_size.   s (q - (z + 1)), or s (q -
//         z) in checkpoint_format gptq_v2
//   AWQ   qweight [K, N / 8], qzeros [G, N / 8]; nibble i of a word is output 8 w + {0, 2, 4, 6, 1, 3, 5,
//   7}[i];
//         scales [G, N].   s (q - z)
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ckpt/quantised/packed_matrix.h"

namespace stoa::ckpt {
namespace {

struct Groups {
  std::vector<float> scales;           // [G, N]
  std::vector<std::int32_t> of_input;  // the group of each of K inputs
};

class GroupedMatrix : public PackedMatrix {
 public:
  GroupedMatrix(std::int64_t rows, std::int64_t columns, StorageType type, std::vector<std::string> tensors,
                Groups groups, std::vector<std::int32_t> words, std::vector<std::int32_t> zeros, int bits)
      : PackedMatrix(rows, columns, type, std::move(tensors)),
        groups_(std::move(groups)),
        words_(std::move(words)),
        zeros_(std::move(zeros)),
        bits_(bits) {}

  void decode(std::int64_t begin, std::int64_t end, float* out) const override {
    for (std::int64_t k = 0; k < columns(); ++k) {
      const std::int64_t group = groups_.of_input[static_cast<std::size_t>(k)];
      const float* scales = groups_.scales.data() + group * rows();
      for (std::int64_t n = begin; n < end; ++n)
        out[(n - begin) * columns() + k] = scales[n] * static_cast<float>(code(k, n) - zero(group, n));
    }
  }

 protected:
  virtual int code(std::int64_t input, std::int64_t output) const = 0;
  virtual int zero(std::int64_t group, std::int64_t output) const = 0;

  int per_word() const { return 32 / bits_; }
  int bits_of(std::int32_t word, std::int64_t place) const {
    return static_cast<int>((static_cast<std::uint32_t>(word) >> (bits_ * static_cast<int>(place))) &
                            ((1u << bits_) - 1u));
  }
  std::int32_t word(std::int64_t index) const { return words_[static_cast<std::size_t>(index)]; }
  std::int32_t zero_word(std::int64_t index) const { return zeros_[static_cast<std::size_t>(index)]; }

 private:
  const Groups groups_;
  const std::vector<std::int32_t> words_, zeros_;
  const int bits_;
};

class GptqMatrix final : public GroupedMatrix {
 public:
  template <class... Args>
  explicit GptqMatrix(int added, Args&&... args)
      : GroupedMatrix(std::forward<Args>(args)...), added_(added) {}

 private:
  int code(std::int64_t k, std::int64_t n) const override {
    return bits_of(word(k / per_word() * rows() + n), k % per_word());
  }
  int zero(std::int64_t g, std::int64_t n) const override {
    return bits_of(zero_word(g * (rows() / per_word()) + n / per_word()), n % per_word()) + added_;
  }

  const int added_;  // to stored zeros
};

class AwqMatrix final : public GroupedMatrix {
 public:
  using GroupedMatrix::GroupedMatrix;

 private:
  // Of output n within its word.
  static int place(std::int64_t n) {
    constexpr std::array<int, 8> kPlaces{0, 4, 1, 5, 2, 6, 3, 7};
    return kPlaces[static_cast<std::size_t>(n % 8)];
  }
  int code(std::int64_t k, std::int64_t n) const override {
    return bits_of(word(k * (rows() / 8) + n / 8), place(n));
  }
  int zero(std::int64_t g, std::int64_t n) const override {
    return bits_of(zero_word(g * (rows() / 8) + n / 8), place(n));
  }
};

// Groups follow each other where there is no g_idx.
Groups read_groups(const MatrixTensors& tensors, std::int64_t columns, std::int64_t count) {
  Groups out;
  out.scales = tensors.numbers("scales");
  if (tensors.has("g_idx")) {
    tensors.entry("g_idx", StorageType::kI32, {columns});
    out.of_input = tensors.integers("g_idx");
  } else {
    const std::int64_t size = (columns + count - 1) / count;
    for (std::int64_t k = 0; k < columns; ++k) out.of_input.push_back(static_cast<std::int32_t>(k / size));
  }
  for (const std::int32_t group : out.of_input)
    require<DataError>(group >= 0 && group < count, "'{}.g_idx' names group {} of {}", tensors.stem(), group,
                       count);
  return out;
}

}  // namespace

std::unique_ptr<PackedMatrix> open_gptq(const MatrixTensors& tensors) {
  const nlohmann::json& config = tensors.config();
  const int bits = config.value("bits", 4);
  require<DataError>(bits == 2 || bits == 4 || bits == 8, "GPTQ of {} bits is not read; read are 2, 4 and 8",
                     bits);
  const TensorEntry& weight = tensors.entry("qweight", StorageType::kI32, {-1, -1});
  const std::int64_t rows = weight.shape[1], columns = weight.shape[0] * (32 / bits);
  const TensorEntry& scales = tensors.entry("scales");
  if (scales.shape.size() != 2 || scales.shape[1] != rows)
    tensors.wrong("scales", fmt::format("[groups, {}]", rows));
  tensors.entry("qzeros", StorageType::kI32, {scales.shape[0], rows * bits / 32});
  const bool second = config.value("checkpoint_format", config.value("format", "")) == "gptq_v2";
  return std::make_unique<GptqMatrix>(second ? 0 : 1, rows, columns, scales.type,
                                      tensors.present({"qweight", "qzeros", "scales", "g_idx"}),
                                      read_groups(tensors, columns, scales.shape[0]),
                                      tensors.integers("qweight"), tensors.integers("qzeros"), bits);
}

std::unique_ptr<PackedMatrix> open_awq(const MatrixTensors& tensors) {
  const nlohmann::json& config = tensors.config();
  const int bits = config.value("bits", config.value("w_bit", 4));
  const std::string version = config.value("version", "gemm");
  require<DataError>(bits == 4 && (version == "gemm" || version == "GEMM"),
                     "AWQ of {} bits, version {} is not read; read is 4 bits, gemm", bits, version);
  const TensorEntry& weight = tensors.entry("qweight", StorageType::kI32, {-1, -1});
  const std::int64_t rows = weight.shape[1] * 8, columns = weight.shape[0];
  const TensorEntry& scales = tensors.entry("scales");
  if (scales.shape.size() != 2 || scales.shape[1] != rows)
    tensors.wrong("scales", fmt::format("[groups, {}]", rows));
  tensors.entry("qzeros", StorageType::kI32, {scales.shape[0], rows / 8});
  return std::make_unique<AwqMatrix>(rows, columns, scales.type,
                                     tensors.present({"qweight", "qzeros", "scales"}),
                                     read_groups(tensors, columns, scales.shape[0]),
                                     tensors.integers("qweight"), tensors.integers("qzeros"), bits);
}

}  // namespace stoa::ckpt
