// NVFP4: E2M1 codes, two per byte, the low half first, in groups of 16 that share a scale of E4M3, and one
// scale for the matrix.
//
//   compressed-tensors  weight_packed u8 [N, K / 2], weight_scale e4m3 [N, K / 16], weight_global_scale g  E
//   s / g ModelOpt            weight u8, weight_scale, weight_scale_2 t E s t
#include "base/error.h"
#include "ckpt/quantised/packed_matrix.h"

namespace stoa::ckpt {
namespace {

constexpr std::int64_t kGroup = 16;

class Nvfp4Matrix final : public PackedMatrix {
 public:
  Nvfp4Matrix(const MatrixTensors& tensors, const char* codes, float factor, std::vector<std::string> names,
              std::int64_t rows, std::int64_t columns)
      : PackedMatrix(rows, columns, tensors.type(), std::move(names)),
        codes_(tensors.bytes(codes)),
        scales_(tensors.numbers("weight_scale")),
        factor_(factor) {}

  void decode(std::int64_t begin, std::int64_t end, float* out) const override {
    constexpr float kE2m1[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    for (std::int64_t i = begin * columns(); i < end * columns(); ++i) {
      const int pair = std::to_integer<int>(codes_[static_cast<std::size_t>(i / 2)]);
      const float scale = scales_[static_cast<std::size_t>(i / kGroup)] * factor_;
      *out++ = kE2m1[i % 2 == 0 ? pair & 15 : pair >> 4] * scale;
    }
  }

 private:
  const std::vector<std::byte> codes_;
  const std::vector<float> scales_;
  const float factor_;
};

}  // namespace

std::unique_ptr<PackedMatrix> open_nvfp4(const MatrixTensors& tensors) {
  const bool compressed = tensors.has("weight_packed");
  const char* codes = compressed ? "weight_packed" : "weight";
  const TensorEntry& packed = tensors.entry(codes, StorageType::kU8, {-1, -1});
  const std::int64_t rows = packed.shape[0], columns = packed.shape[1] * 2;
  tensors.entry("weight_scale", StorageType::kF8E4M3, {rows, columns / kGroup});
  const char* global = compressed ? "weight_global_scale" : "weight_scale_2";
  const auto factor = tensors.numbers(global);
  require<DataError>(factor.size() == 1 && factor[0] != 0, "'{}.{}' is not one number other than 0",
                     tensors.stem(), global);
  return std::make_unique<Nvfp4Matrix>(tensors, codes, compressed ? 1 / factor[0] : factor[0],
                                       tensors.present({codes, "weight_scale", global}), rows, columns);
}

}  // namespace stoa::ckpt
