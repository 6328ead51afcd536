#include "ops/scale_matrix.h"

#include <cmath>

#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {

void ReferenceBackend::execute(const ScaleMatrix& op, Resources) {
  const Values x = load(op.x), rows = load(op.rows), columns = load(op.columns), bias = load(op.bias);
  Values y = op.accumulate ? load(op.y) : Values(x.size());
  const auto width = static_cast<std::size_t>(op.x.shape[1]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t row = i / width, column = i % width;
    double value = x[i];
    if (op.rows) value *= rows[row];
    if (op.columns) value *= columns[column];
    if (op.bias) value += bias[column];
    y[i] += value;
  }
  store(y, op.y);
}

void ReferenceBackend::execute(const ScaleMatrixBackward& op, Resources) {
  const Values x = load(op.x), dy = load(op.dy);
  const auto width = static_cast<std::size_t>(op.x.shape[1]);
  Values sums(width);
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % width] += x[i] * dy[i];
  if (op.accumulate) {
    const Values before = load(op.dcolumns);
    for (std::size_t c = 0; c < width; ++c) sums[c] += before[c];
  }
  store(sums, op.dcolumns);
}

void ReferenceBackend::execute(const RowDots& op, Resources) {
  const Values x = load(op.x), y = load(op.y);
  Values out = op.accumulate ? load(op.out) : Values(static_cast<std::size_t>(op.x.rows()));
  const auto width = static_cast<std::size_t>(op.x.shape[1]);
  for (std::size_t i = 0; i < x.size(); ++i) out[i / width] += x[i] * y[i];
  store(out, op.out);
}

void ReferenceBackend::execute(const InverseRoot& op, Resources) {
  Values x = load(op.x);
  for (double& value : x) value = value > 0 ? 1 / std::sqrt(value) : 0;
  store(x, op.y);
}

}  // namespace stoa::ops
