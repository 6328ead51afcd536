#include "ops/cpu/cache_rows_kernels.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/cpu/operands.h"

namespace stoa::ops::cpu {

void CpuBackend::execute(const ScatterRows& op, Resources resources) {
  if (needs_reference(op)) return ReferenceBackend::execute(op, resources);
  const auto* index = op.index.as<std::int32_t>();
  const CacheShape cache(op.y);
  for (std::int64_t i = 0; i < op.x.rows(); ++i)
    require<DataError>(index[i] >= 0 && index[i] < cache.blocks * cache.rows, "scatter rows: row {} of {}",
                       index[i], cache.blocks * cache.rows);
  const ScatterJob job{.x = op.x.data,
                       .type = element_of(op.x.dtype),
                       .stride = op.x.stride0,
                       .heads = op.x.shape[1],
                       .d = op.x.shape[2],
                       .index = index,
                       .y = op.y.data,
                       .form = cache_form_of(op.y.dtype),
                       .block_rows = cache.rows,
                       .width = cache.width};
  const CacheRowsKernels& kernels = STOA_KERNELS(isa_, cache_rows_kernels);
  run_pieces(pool_, op.x.rows(), rows_per_task(op.x.shape.inner()),
             [&](std::int64_t begin, std::int64_t end) { kernels.scatter(job, begin, end); });
}

}  // namespace stoa::ops::cpu
