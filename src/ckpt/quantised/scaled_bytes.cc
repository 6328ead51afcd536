// A byte for each number: int8 (compressed-tensors' int-quantized, LLM.int8) and FP8 E4M3
// (compressed-tensors' float-quantized, fp8, fbgemm_fp8, modelopt), times a scale.
//
//   weight [N, K]; weight_scale [1], [], [N] or [N, 1], or of blocks [⌈N / b⌉, ⌈K / b⌉] (weight_scale_inv,
//   weight_block_size b); SCB [N] of LLM.int8: s / 127
//
// Scales multiply in every case, "inv" or not. input_scale belongs to activations.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/fp8.h"
#include "ckpt/quantised/packed_matrix.h"

namespace stoa::ckpt {
namespace {

constexpr const char* kScaleNames[] = {"weight_scale_inv", "weight_scale", "SCB"};

class ScaledBytes final : public PackedMatrix {
 public:
  struct Scales {
    std::vector<float> values;
    std::int64_t row_block = 1, column_block = 1,
                 across = 1;  // numbers that share one; scales of a row of blocks
  };
  ScaledBytes(const MatrixTensors& tensors, std::int64_t rows, std::int64_t columns, StorageType type,
              Scales scales)
      : PackedMatrix(rows, columns, type,
                     tensors.present({"weight", "weight_scale_inv", "weight_scale", "weight_zero_point",
                                      "SCB", "weight_format"})),
        codes_(tensors.bytes("weight")),
        scales_(std::move(scales)) {
    const bool eight = tensors.entry("weight").type == StorageType::kF8E4M3;
    for (int code = 0; code < 256; ++code) {
      e4m3 value;
      value.bits = static_cast<std::uint8_t>(code);
      values_[code] = eight ? static_cast<float>(value) : static_cast<float>(static_cast<std::int8_t>(code));
    }
    if (!tensors.has("weight_zero_point")) return;
    for (const std::byte zero : tensors.bytes("weight_zero_point"))
      require<DataError>(zero == std::byte{0},
                         "'{}.weight_zero_point' is not 0, which is not supported for bytes", tensors.stem());
  }

  void decode(std::int64_t begin, std::int64_t end, float* out) const override {
    for (std::int64_t n = begin; n < end; ++n) {
      const std::byte* row = codes_.data() + n * columns();
      const float* scales = scales_.values.data() + n / scales_.row_block * scales_.across;
      for (std::int64_t k = 0; k < columns(); ++k)
        *out++ = values_[std::to_integer<int>(row[k])] * scales[k / scales_.column_block];
    }
  }

 private:
  const std::vector<std::byte> codes_;
  const Scales scales_;
  float values_[256];
};

// [2, …] of weight_block_size: the only two numbers of it.
std::pair<std::int64_t, std::int64_t> block_size(const nlohmann::json& config) {
  const auto found = config.find("weight_block_size");
  if (found == config.end() || !found->is_array() || found->size() != 2) return {128, 128};
  return {(*found)[0].get<std::int64_t>(), (*found)[1].get<std::int64_t>()};
}

ScaledBytes::Scales read_scales(const MatrixTensors& tensors, const char* name, std::int64_t rows,
                                std::int64_t columns) {
  const TensorEntry& entry = tensors.entry(name);
  ScaledBytes::Scales out{.values = tensors.numbers(name)};
  const std::int64_t count = entry.elements();
  if (count == 1) {
    out.row_block = rows;
    out.column_block = columns;
  } else if (count == rows && (entry.shape.size() < 2 || entry.shape[1] == 1)) {
    out.column_block = columns;
  } else {
    const auto [high, wide] = block_size(tensors.config());
    require<DataError>(high > 0 && wide > 0, "weight_block_size of quantization_config is not positive");
    out.row_block = high;
    out.column_block = wide;
    out.across = (columns + wide - 1) / wide;
    if (entry.shape.size() != 2 || entry.shape[0] != (rows + high - 1) / high || entry.shape[1] != out.across)
      tensors.wrong(name, fmt::format("[1], [{}, 1] or one for every block of [{}, {}]", rows, high, wide));
  }
  if (std::string_view(name) == "SCB")
    for (float& scale : out.values) scale /= 127;
  return out;
}

}  // namespace

std::unique_ptr<PackedMatrix> open_scaled_bytes(const MatrixTensors& tensors) {
  const TensorEntry& weight = tensors.entry("weight");
  if ((weight.type != StorageType::kI8 && weight.type != StorageType::kF8E4M3) || weight.shape.size() != 2)
    tensors.wrong("weight", "I8 or F8_E4M3 [outputs, inputs]");
  for (const char* name : kScaleNames)
    if (tensors.has(name)) {
      // Scales of a wide type say nothing of the values' own.
      const StorageType type =
          tensors.entry(name).type == StorageType::kF32 ? tensors.type() : tensors.entry(name).type;
      return std::make_unique<ScaledBytes>(tensors, weight.shape[0], weight.shape[1], type,
                                           read_scales(tensors, name, weight.shape[0], weight.shape[1]));
    }
  fail<DataError>("'{}.weight' is {} and has no weight_scale", tensors.stem(), name_of(weight.type));
}

}  // namespace stoa::ckpt
