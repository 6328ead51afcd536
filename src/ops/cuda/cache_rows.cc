#include "ops/cuda/kernels/cache_rows.h"

#include "ops/cuda/cache_forms.h"
#include "ops/cuda/cuda_backend.h"
#include "ops/cuda/operands.h"

namespace stoa::ops::cuda {

void CudaBackend::execute(const ScatterRows& op, Resources resources) {
  ScatterRowsArgs args;
  args.type = fast_element_of(ScatterRows::kName, op.x);
  args.form = cache_form_of(op.y.dtype);
  args.x = op.x.data, args.y = op.y.data;
  args.rows = op.x.rows(), args.x_stride = op.x.stride0;
  const CacheShape cache(op.y);
  args.heads = cache.heads, args.block_rows = cache.rows;
  args.d = op.x.shape[2], args.width = cache.width;
  args.index = op.index.as<std::int32_t>();
  args.wide = args.form != CacheForm::kCodes && all_aligned({args.x, args.y}) && args.d % 8 == 0 &&
              args.x_stride % 8 == 0;
  launch_scatter_rows(args, native_stream(resources.stream));
}

}  // namespace stoa::ops::cuda
