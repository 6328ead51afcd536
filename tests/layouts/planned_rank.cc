#include "planned_rank.h"

#include "device/meta/meta_device.h"
#include "ops/meta/meta_backend.h"
#include "parallel/meta_contexts.h"

namespace stoa::layouts {

PlannedRank::PlannedRank(const TestRun& run, const run::Layout& layout, int rank, DType type,
                         std::int64_t microbatches) {
  run::TrainingOptions o;
  o.model = model::resolve_model(run.config);
  o.precision = {type, type};
  o.length = run.config.encoder_seq_length;
  o.microbatches = microbatches;
  o.layout = layout;
  meta_.device = std::make_unique<MetaDevice>();
  meta_.backend = std::make_unique<ops::MetaBackend>(kernels_);
  meta_.stream = meta_.device->create_stream();
  rank_.emplace(meta_, o, parallel::make_meta_context(layout.grid, rank, *meta_.device), 0);
}

}  // namespace stoa::layouts
