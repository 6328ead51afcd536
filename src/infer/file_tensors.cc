#include "infer/file_tensors.h"

#include "ckpt/convert.h"

namespace stoa::infer {

std::vector<std::byte> gather_tensor(const model::huggingface::Tensor& tensor, DType type,
                                     const CanonicalSource& source) {
  std::vector<std::byte> out(static_cast<std::size_t>(tensor.shape.elements()) * size_of(type));
  std::vector<std::vector<std::byte>> parts;  // converted, alive until gathered
  parts.reserve(tensor.parts.size());
  model::huggingface::gather(
      tensor, type,
      [&](const model::CanonicalTensor& part) -> const std::byte* {
        const TensorView view = source(part.name);
        if (view.dtype == type) return static_cast<const std::byte*>(view.data);
        auto& bytes = parts.emplace_back(static_cast<std::size_t>(view.elements()) * size_of(type));
        ckpt::convert_elements(static_cast<const std::byte*>(view.data), view.dtype, bytes.data(), type,
                               view.elements());
        return bytes.data();
      },
      out.data());
  return out;
}

}  // namespace stoa::infer
