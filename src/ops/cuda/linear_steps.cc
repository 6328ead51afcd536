#include "ops/cuda/linear_steps.h"

#include "ops/cuda/kernels/elementwise.h"
#include "ops/cuda/kernels/norm.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {

std::size_t cast_bias_bytes(const TensorView& bias, DType wanted) {
  return bias && wanted != bias.dtype ? static_cast<std::size_t>(bias.elements()) * size_of(wanted) : 0;
}

const void* cast_bias(const TensorView& bias, DType wanted, WorkspaceParts& parts, void* stream) {
  const std::size_t bytes = cast_bias_bytes(bias, wanted);
  if (bytes == 0) return bias.data;
  MapArgs cast;
  cast.x = bias.data;
  cast.x_type = element_of(bias.dtype);
  cast.y = parts.take(bytes);
  cast.y_type = element_of(wanted);
  cast.count = bias.elements();
  cast.wide = is_aligned(bias.data);
  launch_map(cast, stream);
  return cast.y;
}

std::size_t column_sum_bytes(const TensorView& x, const TensorView& out) {
  return out ? static_cast<std::size_t>(column_sum_blocks(x.shape[0]) * x.shape[1]) * sizeof(float) : 0;
}

void add_column_sums(const TensorView& x, const TensorView& out, bool accumulate, WorkspaceParts& parts,
                     void* stream) {
  if (!out) return;
  ColumnSums sums;
  sums.x = rows_of(x);
  sums.rows = x.shape[0];
  sums.partial = static_cast<float*>(parts.take(column_sum_bytes(x, out)));
  sums.wide = is_wide(sums.x);
  launch_column_sums(sums, stream);
  PartialSums add;
  add.partial = sums.partial;
  add.blocks = column_sum_blocks(sums.rows);
  add.stride = add.columns = sums.x.columns;
  add.out = out.as<float>();
  add.accumulate = accumulate;
  launch_add_partials(add, stream);
}

}  // namespace stoa::ops::cuda
