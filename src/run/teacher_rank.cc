#include "run/teacher_rank.h"

#include "infer/read_weights.h"
#include "model/architecture.h"
#include "nn/pass.h"
#include "run/teacher_layout.h"

namespace stoa::run {

TeacherRank::TeacherRank(Arena& arena, const TeacherOptions& options, const Place& place,
                         nn::OffloadRing& ring, const schedule::Schedule& evaluation)
    : arena_(arena), options_(options), tokens_(place.tokens), length_(place.length) {
  const model::ModelConfig& config = options.model.config;
  const parallel::ParallelContext& parallel = place.parallel;
  const parallel::TensorPlace tensor{parallel.coordinate(parallel::Axis::kTensor),
                                     parallel.degree(parallel::Axis::kTensor),
                                     place.layout.sequence_parallel};
  const int stage = parallel.coordinate(parallel::Axis::kPipeline);
  const schedule::Holdings holdings = schedule::holdings_of(evaluation, stage);
  const auto heads = parallel::head_part(config.num_attention_heads, config.query_groups(), tensor);
  require<ConfigError>(
      !config.linear.any() || parallel.degree(parallel::Axis::kContext) == 1,
      "context_parallel_size {} with a teacher that has linear attention, whose state passes "
      "along a text: give 1",
      parallel.degree(parallel::Axis::kContext));
  parallel::check_context(place.layout.context_place(parallel.rank()), place.length, heads.heads.count,
                          heads.groups.count);
  nn::ParamId embedding;
  for (const PlacedChunk& placed :
       place_chunks(layout_of_teacher(place.layout, config.num_layers, evaluation.placement.chunks()),
                    config.num_layers)) {
    placement_.rank_of_chunk.push_back(placed.rank);
    if (placed.rank != stage) continue;
    model::ChunkOptions chunk;
    chunk.place = tensor;
    chunk.experts = place.layout.expert_place(parallel.rank());
    chunk.first_layer = placed.first_layer;
    chunk.layers = placed.layers;
    chunk.embedding = placed.embedding;
    chunk.head = placed.head;
    chunk.precision = place.precision;
    chunk.tokens = place.tokens;
    chunk.positions = place.length;
    chunks_.push_back(std::make_unique<model::Chunk>(options.model, chunk, &params_, embedding));
    if (placed.embedding) embedding = chunks_.back()->token_embedding();
  }
  parameters_ = std::make_unique<optim::ParameterStore>(arena, params_.specs(), place.precision);
  for (const auto& chunk : chunks_) constants_.emplace_back(arena, *chunk);
  for (std::size_t c = 0, own = 0; c < static_cast<std::size_t>(placement_.chunks()); ++c)
    if (placement_.rank_of_chunk[c] == stage)
      local_.emplace_back(arena, static_cast<int>(c), *chunks_[own++], holdings, ring);
  outbox_ = std::make_unique<Outbox>(arena, chunks_.front()->boundary(), holdings.sends);
  if (placement_.rank_of_chunk.back() == stage)
    rows_ = arena.declare(
        MemoryCategory::kTeacher,
        {"teacher.rows", place.precision.compute, Shape{place.microbatches * tokens_, config.hidden_size}});
}

void TeacherRank::fill_constants(infer::Machine& machine) {
  for (std::size_t c = 0; c < chunks_.size(); ++c) constants_[c].fill(machine, arena_, *chunks_[c], length_);
}

void TeacherRank::load(infer::Machine& machine, const infer::ModelFiles& files) {
  infer::HeldParameters held;
  for (const auto& tensor : model::canonical_tensors(options_.model))
    held.tensors.push_back({tensor.name, DType::kF32, tensor.shape});
  for (const nn::ParamSpec& spec : params_.specs()) held.parts.push_back(spec.shard);
  infer::read_weights(machine, files, held, [&](nn::ParamId id) { return parameters_->get(id); });
}

void TeacherRank::logits(const nn::Pass& pass, TensorView rows, TensorView logits) const {
  nn::Pass own{.ops = pass.ops, .parallel = pass.parallel, .params = *parameters_, .batch = pass.batch};
  chunks_.back()->project(own, rows, logits);
}

TensorView TeacherRank::rows(std::int64_t microbatch) const {
  return rows_ ? arena_.view(rows_).slice(microbatch * tokens_, tokens_) : TensorView();
}

}  // namespace stoa::run
