#include "infer/loaded_chunk.h"

#include <algorithm>
#include <cmath>

#include "infer/host_window.h"

namespace stoa::infer {

std::unique_ptr<model::Chunk> whole_chunk(const model::ModelSpec& model, const nn::Precision& precision,
                                          std::int64_t tokens, std::int64_t positions,
                                          const RankShare& share) {
  model::ChunkOptions options;
  const parallel::Part layers = share.layers(model.config.num_layers);
  options.place = share.tensor_place();
  options.experts = share.expert_place();
  options.first_layer = layers.begin;
  options.layers = layers.count;
  options.embedding = share.first_stage();
  options.head = share.last_stage();
  options.tied_apart = share.stages() > 1 && model.config.ties_head();
  options.precision = precision;
  options.tokens = tokens;
  options.positions = positions;
  return std::make_unique<model::Chunk>(model, options);
}

LoadedChunk::LoadedChunk(Machine& machine, const model::ModelSpec& model, const nn::Precision& precision,
                         std::int64_t tokens, std::int64_t positions, const RankShare& share)
    : machine_(machine),
      positions_(positions),
      parallel_(share.context_on(*machine.device)),
      arena_(*machine.device),
      chunk_(whole_chunk(model, precision, tokens, positions, share)),
      parameters_(std::make_unique<optim::ParameterStore>(arena_, chunk_->params().specs(), precision)),
      constants_(arena_, *chunk_) {}

void LoadedChunk::commit(std::optional<std::size_t> scratch_bytes) {
  Arena::Id memory;
  if (scratch_bytes)
    memory = arena_.declare(MemoryCategory::kScratch,
                            {"scratch", DType::kU8, Shape{static_cast<std::int64_t>(*scratch_bytes)}});
  arena_.commit();
  scratch_ = scratch_bytes ? std::make_unique<Scratch>(arena_.view(memory)) : std::make_unique<Scratch>();
  ops_ = std::make_unique<ops::OpContext>(
      ops::OpContext{*machine_.backend, *machine_.stream, *scratch_, nullptr, machine_.device.get()});
  constants_.fill(machine_, arena_, *chunk_, positions_);
}

TensorView LoadedChunk::put(Arena::Id id, std::span<const std::int32_t> values) {
  return stage(machine_, arena_.view(id), values);
}

std::span<const float> LoadedChunk::read(TensorView rows, std::int64_t columns) {
  host_.resize(static_cast<std::size_t>(rows.rows() * columns));
  read_floats(machine_, rows, columns, host_);
  const auto bad = std::find_if_not(host_.begin(), host_.end(), [](float x) { return std::isfinite(x); });
  require<NumericsError>(bad == host_.end(), "the model's answer is not a number (value {} of {}): {}",
                         bad - host_.begin(), host_.size(), kBeyondRange);
  return host_;
}

}  // namespace stoa::infer
