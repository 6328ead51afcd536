#include "ops/cpu/quantised_backend.h"

#include <cstring>
#include <numeric>

namespace stoa::ops::cpu {
namespace {

void to_floats(const TensorView& tensor, std::int64_t row, float* out) {
  dispatch_float(tensor.dtype, [&]<class T>() {
    const T* from = static_cast<const T*>(tensor.byte_offset(row * tensor.stride0));
    for (std::int64_t i = 0; i < tensor.shape[1]; ++i) out[i] = static_cast<float>(from[i]);
  });
}

void from_floats(const float* from, const TensorView& tensor, std::int64_t row) {
  dispatch_float(tensor.dtype, [&]<class T>() {
    T* to = static_cast<T*>(tensor.byte_offset(row * tensor.stride0));
    for (std::int64_t i = 0; i < tensor.shape[1]; ++i) to[i] = T(from[i]);
  });
}

}  // namespace

bool QuantisedBackend::hold(const TensorView& matrix, std::span<const QuantisedRow> rows) {
  require<InternalError>(matrix.shape.rank() == 2 && matrix.rows() >= static_cast<std::int64_t>(rows.size()),
                         "{} quantised rows for a matrix {}", rows.size(), matrix.text());
  auto packed = QuantisedMatrix::pack(matrix.shape[1], rows);
  if (!packed) return false;
  held_.insert_or_assign(matrix.data, *std::move(packed));
  return true;
}

std::size_t QuantisedBackend::held_bytes() const {
  std::size_t total = 0;
  for (const auto& [address, matrix] : held_) total += matrix.bytes();
  return total;
}

void QuantisedBackend::multiply(const LinearForward& op, const QuantisedMatrix& matrix) {
  const std::int64_t count = op.x.shape[0], columns = matrix.columns(), rows = matrix.rows();
  x_.resize(static_cast<std::size_t>(count * columns));
  y_.resize(static_cast<std::size_t>(count * rows));
  for (std::int64_t t = 0; t < count; ++t) to_floats(op.x, t, x_.data() + t * columns);
  matrix.product(x_.data(), count, y_.data(), kernels_, pool_);
  // The matrix may have more rows than there are: padding, whose outputs are zero.
  std::vector<float> row(static_cast<std::size_t>(op.w.shape[0]));
  for (std::int64_t t = 0; t < count; ++t) {
    std::copy_n(y_.data() + t * rows, rows, row.data());
    if (op.bias)
      for (std::int64_t n = 0; n < op.w.shape[0]; ++n) row[static_cast<std::size_t>(n)] += op.bias.as<float>()[n];
    from_floats(row.data(), op.y, t);
  }
}

void QuantisedBackend::look_up(const EmbeddingForward& op, const QuantisedMatrix& table, Resources resources) {
  require<InternalError>(op.vocabulary == 0 && op.table.dtype == DType::kF32,
                         "a quantised table {} is looked up as a part", op.table.text());
  const std::int64_t count = op.tokens.shape[0], columns = table.columns();
  x_.resize(static_cast<std::size_t>(count * columns));
  std::vector<std::int32_t> places(static_cast<std::size_t>(count));
  std::iota(places.begin(), places.end(), 0);
  for (std::int64_t t = 0; t < count; ++t) {
    const std::int64_t id = op.tokens.as<std::int32_t>()[t];
    if (id < table.rows())
      table.decode(id, x_.data() + t * columns);
    else
      std::fill_n(x_.data() + t * columns, columns, 0.0f);
  }
  EmbeddingForward found = op;
  found.tokens = TensorView(places.data(), DType::kI32, {count});
  found.table = TensorView(x_.data(), DType::kF32, {count, columns});
  inner_->execute(found, resources);
}

}  // namespace stoa::ops::cpu
