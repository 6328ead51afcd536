#include "ops/packed_linear.h"

#include "ops/linear.h"
#include "ops/reference/reference_backend.h"

namespace stoa::ops {
namespace {

// The matrix in the type of products with it; of fp64 its fp32 numbers.
template <class Op>
void with_matrix(const Op& op, DType type, const auto& body) {
  const auto& s = op.shape;
  const quant::PackedRange all{.rows = s.rows, .columns = s.columns};
  dispatch_float(type, [&]<class T>() {
    std::vector<T> matrix(static_cast<std::size_t>(s.rows * s.columns));
    const auto* memory = static_cast<const std::byte*>(op.w.data);
    if constexpr (std::is_same_v<T, double>) {
      std::vector<float> numbers(matrix.size());
      quant::unpack(s, memory, all, numbers.data(), s.columns);
      std::copy(numbers.begin(), numbers.end(), matrix.begin());
    } else {
      quant::unpack(s, memory, all, matrix.data(), s.columns);
    }
    body(TensorView(matrix.data(), type, {s.rows, s.columns}));
  });
}

}  // namespace

void ReferenceBackend::execute(const PackedLinearForward& op, Resources resources) {
  with_matrix(op, op.x.dtype, [&](TensorView w) {
    execute(LinearForward{.x = op.x, .w = w, .bias = op.bias, .y = op.y}, resources);
  });
}

void ReferenceBackend::execute(const PackedLinearBackwardInput& op, Resources resources) {
  with_matrix(op, op.dy.dtype, [&](TensorView w) {
    execute(LinearBackwardInput{.dy = op.dy, .w = w, .dx = op.dx}, resources);
  });
}

}  // namespace stoa::ops
