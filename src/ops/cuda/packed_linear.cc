// A matrix in 8 or 4 bits is unpacked to the type of the layer, then multiplied like any other.
#include <algorithm>

#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/kernels/packed_matrix.h"
#include "ops/cuda/operands.h"
#include "ops/cuda/workspace_parts.h"
#include "quant/packed_places.h"

namespace stoa::ops::cuda {
namespace {

std::size_t unpacked_bytes(const quant::PackedShape& shape, DType type) {
  return aligned(static_cast<std::size_t>(shape.rows * shape.columns) * size_of(type)) + kWorkspaceAlignment;
}

Nf4Tables nf4_tables() {
  Nf4Tables out;
  std::ranges::copy(quant::nf4_values(), out.values);
  std::ranges::copy(quant::dynamic_values(), out.dynamic);
  return out;
}

// The matrix in `memory`.
TensorView unpack(const char* op, const TensorView& w, const quant::PackedShape& shape, DType type,
                  void* memory, void* stream) {
  const TensorView out(memory, type, {shape.rows, shape.columns});
  const auto at = [&](std::size_t offset) { return static_cast<const std::byte*>(w.data) + offset; };
  PackedMatrixArgs args;
  args.rows = shape.rows, args.columns = shape.columns;
  args.codes = w.data;
  args.type = fast_element_of(op, out);
  args.out = memory;
  if (shape.kind == quant::PackedKind::kInt8) {
    args.scales = reinterpret_cast<const float*>(at(quant::Int8Places(shape).scales));
    launch_unpack_int8(args, stream);
    return out;
  }
  const quant::Nf4Places places(shape);
  args.magnitudes = reinterpret_cast<const std::uint8_t*>(at(places.magnitudes));
  args.first = reinterpret_cast<const std::int32_t*>(at(places.first));
  args.groups = reinterpret_cast<const float*>(at(places.groups));
  launch_unpack_nf4(args, nf4_tables(), stream);
  return out;
}

// Where the product's own workspace begins, behind the numbers.
void* behind(void* workspace, const quant::PackedShape& shape, DType type) {
  return static_cast<std::byte*>(workspace) + unpacked_bytes(shape, type);
}

}  // namespace

std::size_t CudaBackend::workspace_bytes(const PackedLinearForward& op) const {
  return unpacked_bytes(op.shape, op.x.dtype) +
         workspace_bytes(LinearForward{.x = op.x, .w = op.w, .bias = op.bias, .y = op.y});
}
std::size_t CudaBackend::workspace_bytes(const PackedLinearBackwardInput& op) const {
  return unpacked_bytes(op.shape, op.dy.dtype) +
         workspace_bytes(LinearBackwardInput{.dy = op.dy, .w = op.w, .dx = op.dx});
}

void CudaBackend::execute(const PackedLinearForward& op, Resources resources) {
  const DType type = op.x.dtype;
  void* const numbers = WorkspaceParts(resources.workspace).take(0);
  const TensorView w =
      unpack(PackedLinearForward::kName, op.w, op.shape, type, numbers, native_stream(resources.stream));
  execute(LinearForward{.x = op.x, .w = w, .bias = op.bias, .y = op.y},
          Resources{resources.stream, behind(resources.workspace, op.shape, type)});
}

void CudaBackend::execute(const PackedLinearBackwardInput& op, Resources resources) {
  const DType type = op.dy.dtype;
  void* const numbers = WorkspaceParts(resources.workspace).take(0);
  const TensorView w = unpack(PackedLinearBackwardInput::kName, op.w, op.shape, type, numbers,
                              native_stream(resources.stream));
  execute(LinearBackwardInput{.dy = op.dy, .w = w, .dx = op.dx},
          Resources{resources.stream, behind(resources.workspace, op.shape, type)});
}

}  // namespace stoa::ops::cuda
