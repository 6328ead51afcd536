#include <cstring>

#include "ops/reference/dropout.h"
#include "ops/reference/reference_backend.h"
#include "ops/reference/values.h"

namespace stoa::ops {

void ReferenceBackend::execute(const Cast& op, Resources) { store(load(op.x), op.y); }

void ReferenceBackend::execute(const ResidualAdd& op, Resources) {
  const std::int64_t d = op.x.shape[1];
  Values y = load(op.x);
  const Values branch = load(op.branch);
  for (std::int64_t i = 0; i < op.x.elements(); ++i)
    y[i] += branch[i] * dropout_factor(op.dropout, i / d, i % d, d);
  store(y, op.y);
}

void ReferenceBackend::execute(const DropoutBackward& op, Resources) {
  const std::int64_t d = op.dy.shape[1];
  Values dy = load(op.dy);
  for (std::int64_t i = 0; i < op.dy.elements(); ++i) dy[i] *= dropout_factor(op.dropout, i / d, i % d, d);
  store(dy, op.dbranch);
}

void ReferenceBackend::execute(const AddTo& op, Resources) {
  const Values x = load(op.x);
  Values y = load(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += x[i];
  store(y, op.y);
}

void ReferenceBackend::execute(const Combine& op, Resources) {
  const Values x = load(op.x);
  Values y = load(op.y);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = op.a * x[i] + op.b * y[i];
  store(y, op.y);
}

void ReferenceBackend::execute(const FillZero& op, Resources) {
  if (op.y.elements() > 0) std::memset(op.y.data, 0, op.y.bytes());  // zero has no bits in any type
}

void ReferenceBackend::execute(const CopyRows& op, Resources) {
  const std::size_t bytes = static_cast<std::size_t>(op.x.shape.inner()) * size_of(op.x.dtype);
  for (std::int64_t i = 0; i < op.y.rows(); ++i) {
    const std::int64_t from = op.index ? op.index.as<std::int32_t>()[i] : i;
    // The arguments of require() would be made into text for every row.
    if (from < 0 || from >= op.x.rows()) fail<DataError>("copy rows: row {} of {}", from, op.x.text());
    std::memcpy(op.y.byte_offset(i * op.y.stride0), op.x.byte_offset(from * op.x.stride0), bytes);
  }
}

}  // namespace stoa::ops
