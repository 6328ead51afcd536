#include "tensor/tensor_view.h"

#include <fmt/format.h>

namespace stoa {

// Conditions stand in front of fail(): the arguments of require() would be made into text in every call.

TensorView TensorView::slice(std::int64_t begin, std::int64_t count) const {
  if (shape.rank() < 1 || begin < 0 || count < 0 || begin + count > shape[0])
    fail<InternalError>("slice [{}, {}) of {}", begin, begin + count, text());
  TensorView out = *this;
  out.data = byte_offset(begin * stride0);
  out.shape.set(0, count);
  return out;
}

TensorView TensorView::columns(std::int64_t begin, std::int64_t count) const {
  if (shape.rank() != 2 || begin < 0 || count < 0 || begin + count > shape[1])
    fail<InternalError>("columns [{}, {}) of {}", begin, begin + count, text());
  TensorView out = *this;
  out.data = byte_offset(begin);
  out.shape.set(1, count);
  return out;
}

TensorView TensorView::reshape(Shape dims) const {
  if (dims.elements() != elements() || (!contiguous() && dims[0] != shape[0]))
    fail<InternalError>("cannot see {} as {}", text(), dims.text());
  TensorView out = *this;
  out.shape = dims;
  if (contiguous()) out.stride0 = dims.inner();
  return out;
}

std::string TensorView::text() const {
  return fmt::format("{}{}{}", name_of(dtype), shape.text(),
                     contiguous() ? "" : fmt::format(" stride {}", stride0));
}

}  // namespace stoa
