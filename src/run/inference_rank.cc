#include "run/inference_rank.h"

#include <algorithm>

#include "run/constants.h"

namespace stoa::run {

InferenceRank::InferenceRank(Machine& machine, const InferenceOptions& options,
                             std::optional<std::size_t> scratch_bytes)
    : machine_(machine),
      options_(options),
      parallel_(parallel::ParallelContext::single(*machine.device)),
      arena_(*machine.device) {
  model::ChunkOptions chunk;
  chunk.layers = options_.model.config.num_layers;
  chunk.precision = options_.precision;
  chunk.tokens = options_.decoder.pass_tokens;
  chunk.positions = std::max(options_.decoder.context, options_.decoder.longest_text());
  chunk_ = std::make_unique<model::Chunk>(options_.model, chunk);
  parameters_ = std::make_unique<optim::ParameterStore>(arena_, chunk_->params().specs(), options_.precision);
  ChunkConstants constants(arena_, *chunk_);
  decoder_ = std::make_unique<Decoder>(arena_, options_.model, options_.precision, options_.decoder);
  Arena::Id scratch_memory;
  if (scratch_bytes)
    scratch_memory = arena_.declare(
        MemoryCategory::kScratch, {"scratch", DType::kU8, Shape{static_cast<std::int64_t>(*scratch_bytes)}});
  arena_.commit();
  scratch_ =
      scratch_bytes ? std::make_unique<Scratch>(arena_.view(scratch_memory)) : std::make_unique<Scratch>();
  ops_ = std::make_unique<ops::OpContext>(ops::OpContext{*machine.backend, *machine.stream, *scratch_});
  constants.fill(machine_, arena_, *chunk_, chunk.positions);
}

std::size_t InferenceRank::measure_scratch(Machine& meta, const InferenceOptions& options) {
  require<InternalError>(meta.device->kind() == DeviceKind::kMeta, "a dry run needs a meta machine");
  InferenceRank rank(meta, options, std::nullopt);
  rank.decoder_->dry_run(rank.parts());
  return rank.scratch_->high_water();
}

}  // namespace stoa::run
