#include "nn/tensor_rows.h"

namespace stoa::nn {
namespace {

TensorView space_of_all(Pass& pass, const parallel::TensorPlace& place, TensorView rows) {
  Shape shape = rows.shape;
  shape.set(0, rows.rows() * place.size);
  return pass.ops.scratch.allocate(rows.dtype, shape);
}

}  // namespace

InFlight gather_rows(Pass& pass, const parallel::TensorPlace& place, TensorView rows) {
  if (!place.splits_stream()) return {rows, nullptr};
  const TensorView all = space_of_all(pass, place, rows);
  return {all, pass.parallel.along(parallel::Axis::kTensor).all_gather(rows, all, pass.ops.stream)};
}

TensorView partial_rows(Pass& pass, const parallel::TensorPlace& place, TensorView rows) {
  return place.splits_stream() ? space_of_all(pass, place, rows) : rows;
}

InFlight add_rows(Pass& pass, const parallel::TensorPlace& place, TensorView partial, TensorView rows) {
  if (!place.split()) return {rows, nullptr};
  comm::Communicator& group = pass.parallel.along(parallel::Axis::kTensor);
  if (place.splits_stream()) return {rows, group.reduce_scatter(partial, rows, pass.ops.stream)};
  return {rows, group.all_reduce(rows, comm::ReduceOp::kSum, pass.ops.stream)};
}

}  // namespace stoa::nn
