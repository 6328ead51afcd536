// compressed-tensors, pack-quantized: weight_packed i32 [N, ⌈K b / 32⌉] holds q + 2^(b-1), lowest bits first;
// weight_scale [N, G], [N, 1] or [1]; weight_zero_point, packed along N, or none; weight_shape; weight_g_idx
// [K], the group of each input.   s (q - z)
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ckpt/quantised/packed_matrix.h"

namespace stoa::ckpt {
namespace {

class PackedIntegers final : public PackedMatrix {
 public:
  explicit PackedIntegers(const MatrixTensors& tensors, std::int64_t rows, std::int64_t columns, int bits)
      : PackedMatrix(rows, columns, tensors.entry("weight_scale").type,
                     tensors.present({"weight_packed", "weight_scale", "weight_zero_point", "weight_shape",
                                      "weight_g_idx"})),
        bits_(bits),
        words_(tensors.integers("weight_packed")),
        scales_(tensors.numbers("weight_scale")),
        groups_(static_cast<std::int64_t>(scales_.size()) < rows
                    ? 0
                    : static_cast<std::int64_t>(scales_.size()) / rows) {
    if (groups_ * rows != static_cast<std::int64_t>(scales_.size()) && scales_.size() != 1)
      tensors.wrong("weight_scale", fmt::format("[{}, groups] or [1]", rows));
    if (tensors.has("weight_zero_point")) {
      zeros_ = tensors.integers("weight_zero_point");
      const std::int64_t wanted = (rows * bits + 31) / 32 * std::max<std::int64_t>(groups_, 1);
      if (static_cast<std::int64_t>(zeros_.size()) != wanted)
        tensors.wrong("weight_zero_point", fmt::format("{} words", wanted));
    }
    if (tensors.has("weight_g_idx")) {
      of_input_ = tensors.integers("weight_g_idx");
      if (static_cast<std::int64_t>(of_input_.size()) != columns)
        tensors.wrong("weight_g_idx", fmt::format("[{}]", columns));
      for (const std::int32_t group : of_input_)
        require<DataError>(group >= -1 && group < groups_, "'{}.weight_g_idx' names group {} of {}",
                           tensors.stem(), group, groups_);
      if (!of_input_.empty() && of_input_.front() < 0) of_input_.clear();  // not used
    }
  }

  void decode(std::int64_t begin, std::int64_t end, float* out) const override {
    const std::int64_t words = (columns() * bits_ + 31) / 32,
                       size = groups_ > 0 ? (columns() + groups_ - 1) / groups_ : columns();
    for (std::int64_t n = begin; n < end; ++n)
      for (std::int64_t k = 0; k < columns(); ++k) {
        const std::int64_t group = of_input_.empty() ? k / size : of_input_[static_cast<std::size_t>(k)];
        const float scale =
            groups_ > 0 ? scales_[static_cast<std::size_t>(n * groups_ + group)] : scales_.front();
        const int q = signed_bits(words_, n * words * 32 + k * bits_);
        *out++ = scale * static_cast<float>(q - zero(n, group));
      }
  }

 private:
  // At a bit of a row of words. No number of 4 or 8 bits lies across two words.
  int signed_bits(const std::vector<std::int32_t>& from, std::int64_t bit) const {
    const auto word = static_cast<std::uint32_t>(from[static_cast<std::size_t>(bit / 32)]);
    return static_cast<int>((word >> (bit % 32)) & ((1u << bits_) - 1u)) - (1 << (bits_ - 1));
  }
  int zero(std::int64_t n, std::int64_t group) const {
    if (zeros_.empty()) return 0;
    const std::int64_t per_word = 32 / bits_, columns = std::max<std::int64_t>(groups_, 1);
    return signed_bits(zeros_, (n / per_word * columns + group) * 32 + n % per_word * bits_);
  }

  const int bits_;
  const std::vector<std::int32_t> words_;
  const std::vector<float> scales_;
  const std::int64_t groups_;  // 0: one scale for all
  std::vector<std::int32_t> zeros_, of_input_;
};

}  // namespace

std::unique_ptr<PackedMatrix> open_packed_integers(const MatrixTensors& tensors) {
  const TensorEntry& packed = tensors.entry("weight_packed", StorageType::kI32, {-1, -1});
  const auto shape = tensors.integers("weight_shape");
  require<DataError>(shape.size() == 2 && shape[0] == packed.shape[0] && shape[1] > 0,
                     "'{}.weight_shape' does not fit weight_packed {}", tensors.stem(), packed.shape_text());
  for (const int bits : {4, 8})
    if ((shape[1] * bits + 31) / 32 == packed.shape[1])
      return std::make_unique<PackedIntegers>(tensors, shape[0], shape[1], bits);
  tensors.wrong("weight_packed", fmt::format("{} numbers a row of 4 or 8 bits", shape[1]));
}

}  // namespace stoa::ckpt
