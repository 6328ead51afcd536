// bitsandbytes, 4 bits: weight u8 [N K / 2, 1], the high half first; 16 values (weight.quant_map), scales of
// blocks of numbers (weight.absmax), and what they are in JSON (weight.quant_state.bitsandbytes__nf4 or
// __fp4). Doubly quantised scales are bytes with 256 values of their own (weight.nested_quant_map), scales of
// blocks of them (weight.nested_absmax) and an offset.
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ckpt/quantised/packed_matrix.h"

namespace stoa::ckpt {
namespace {

class FourBitMatrix final : public PackedMatrix {
 public:
  FourBitMatrix(std::int64_t rows, std::int64_t columns, StorageType type, std::vector<std::string> names,
                std::vector<std::byte> codes, std::vector<float> values, std::vector<float> scales,
                std::int64_t block)
      : PackedMatrix(rows, columns, type, std::move(names)),
        codes_(std::move(codes)),
        values_(std::move(values)),
        scales_(std::move(scales)),
        block_(block) {}

  void decode(std::int64_t begin, std::int64_t end, float* out) const override {
    for (std::int64_t i = begin * columns(); i < end * columns(); ++i) {
      const int pair = std::to_integer<int>(codes_[static_cast<std::size_t>(i / 2)]);
      *out++ = values_[static_cast<std::size_t>(i % 2 == 0 ? pair >> 4 : pair & 15)] *
               scales_[static_cast<std::size_t>(i / block_)];
    }
  }

 private:
  const std::vector<std::byte> codes_;
  const std::vector<float> values_, scales_;
  const std::int64_t block_;
};

StorageType type_named(const std::string& name) {
  if (name == "float16") return StorageType::kF16;
  if (name == "float32") return StorageType::kF32;
  return StorageType::kBF16;
}

std::vector<float> read_absmax(const MatrixTensors& tensors, const nlohmann::json& state) {
  if (tensors.entry("weight.absmax").type == StorageType::kF32) return tensors.numbers("weight.absmax");
  tensors.entry("weight.absmax", StorageType::kU8, {-1});
  const auto codes = tensors.bytes("weight.absmax");
  const auto values = tensors.numbers("weight.nested_quant_map"),
             scales = tensors.numbers("weight.nested_absmax");
  const auto block = static_cast<std::size_t>(state.value("nested_blocksize", 256));
  require<DataError>(values.size() == 256 && block > 0 && scales.size() == (codes.size() + block - 1) / block,
                     "'{}': the scales of scales do not fit", tensors.stem());
  const float offset = state.value("nested_offset", 0.0f);
  std::vector<float> out(codes.size());
  for (std::size_t i = 0; i < codes.size(); ++i)
    out[i] = values[std::to_integer<std::size_t>(codes[i])] * scales[i / block] + offset;
  return out;
}

}  // namespace

std::unique_ptr<PackedMatrix> open_bitsandbytes(const MatrixTensors& tensors) {
  const char* kind = tensors.has("weight.quant_state.bitsandbytes__nf4")
                         ? "weight.quant_state.bitsandbytes__nf4"
                         : "weight.quant_state.bitsandbytes__fp4";
  const auto text = tensors.bytes(kind);
  const auto state =
      nlohmann::json::parse(reinterpret_cast<const char*>(text.data()),
                            reinterpret_cast<const char*>(text.data()) + text.size(), nullptr, false);
  const bool complete = state.is_object() && state.contains("shape") && state["shape"].is_array() &&
                        state["shape"].size() == 2 && state["shape"][0].is_number_integer() &&
                        state["shape"][1].is_number_integer();
  require<DataError>(complete, "'{}.{}' is not a JSON object with the shape of a matrix", tensors.stem(),
                     kind);
  const auto rows = state["shape"][0].get<std::int64_t>(), columns = state["shape"][1].get<std::int64_t>();
  const std::int64_t block = state.value("blocksize", 64);
  auto codes = tensors.bytes("weight");
  auto values = tensors.numbers("weight.quant_map");
  auto scales = read_absmax(tensors, state);
  require<DataError>(rows > 0 && columns > 0 && block > 0 && rows <= (std::int64_t{1} << 40) / columns &&
                         static_cast<std::int64_t>(codes.size()) == (rows * columns + 1) / 2 &&
                         values.size() == 16 &&
                         static_cast<std::int64_t>(scales.size()) == (rows * columns + block - 1) / block,
                     "'{}': {} bytes of codes, {} values and {} scales are not [{}, {}] in blocks of {}",
                     tensors.stem(), codes.size(), values.size(), scales.size(), rows, columns, block);
  return std::make_unique<FourBitMatrix>(
      rows, columns, type_named(state.value("dtype", "bfloat16")),
      tensors.present({"weight", "weight.absmax", "weight.quant_map", "weight.nested_absmax",
                       "weight.nested_quant_map", kind}),
      std::move(codes), std::move(values), std::move(scales), block);
}

}  // namespace stoa::ckpt
