// A model on one rank, or a rank's share of it, loaded for inference: the common base of PagedDecoder and
// EncoderRank, which need no gradients.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "infer/constants.h"
#include "infer/machine.h"
#include "infer/rank_share.h"
#include "model/chunk.h"
#include "optim/parameter_store.h"

namespace stoa::infer {

// A model as one chunk, for passes of at most `tokens` tokens of texts of `positions`.
std::unique_ptr<model::Chunk> whole_chunk(const model::ModelSpec& model, const nn::Precision& precision,
                                          std::int64_t tokens, std::int64_t positions,
                                          const RankShare& share = {});

class LoadedChunk {
 public:
  // Declares weights and constants. `tokens`: most in a pass; `positions`: of the longest text. Further
  // tensors are declared in arena() before commit().
  LoadedChunk(Machine& machine, const model::ModelSpec& model, const nn::Precision& precision,
              std::int64_t tokens, std::int64_t positions, const RankShare& share = {});
  // `scratch_bytes`: the result of measure_scratch; none on a meta machine.
  void commit(std::optional<std::size_t> scratch_bytes);

  // Copies `values` to the start of `id`; returns a view of them. Complete when the stream is synchronized.
  TensorView put(Arena::Id id, std::span<const std::int32_t> values);
  // The first `columns` of every row, on the host, until the next call. NumericsError: one is not finite.
  std::span<const float> read(TensorView rows, std::int64_t columns);

  Machine& machine() { return machine_; }
  Arena& arena() { return arena_; }
  const parallel::ParallelContext& parallel() const { return *parallel_; }
  const model::Chunk& chunk() const { return *chunk_; }
  optim::ParameterStore& parameters() { return *parameters_; }
  const ChunkConstants& constants() const { return constants_; }
  ops::OpContext& ops() { return *ops_; }
  std::size_t scratch_high_water() const { return scratch_->high_water(); }
  // The context of one pass over whole texts, without keys and values of earlier tokens.
  nn::Pass pass(const nn::BatchView& batch) {
    return {.ops = *ops_, .parallel = *parallel_, .params = *parameters_, .batch = batch};
  }

 private:
  Machine& machine_;
  const std::int64_t positions_;
  const std::shared_ptr<const parallel::ParallelContext> parallel_;
  Arena arena_;
  std::unique_ptr<model::Chunk> chunk_;
  std::unique_ptr<optim::ParameterStore> parameters_;
  ChunkConstants constants_;
  std::unique_ptr<Scratch> scratch_;
  std::unique_ptr<ops::OpContext> ops_;
  std::vector<float> host_;
};

// The reason why a model with finite weights may compute values that are not finite.
inline constexpr std::string_view kBeyondRange =
    "its values exceed the range of the compute type, or of the type of keys and values; try --dtype fp32, "
    "or "
    "--kv-dtype bf16";

// Scratch bytes for the largest passes of a Rank.
template <class Rank, class Options>
std::size_t measure_scratch(Machine& meta, const Options& options) {
  require<InternalError>(meta.device->kind() == DeviceKind::kMeta, "a dry run needs a meta machine");
  Rank rank(meta, options, std::nullopt);
  rank.dry_run();
  return rank.chunk().scratch_high_water();
}

// Bytes that make_rank() would allocate.
template <class Rank, class Options>
std::size_t rank_bytes(Machine& machine, const Options& options) {
  Machine meta = make_meta_machine(machine);
  return measure_scratch<Rank>(meta, options) +
         Rank(meta, options, std::nullopt).chunk().arena().total_bytes();
}

// A Rank of `options` whose weights are still to be written.
template <class Rank, class Options>
std::unique_ptr<Rank> make_rank(Machine& machine, const Options& options) {
  Machine meta = make_meta_machine(machine);
  return std::make_unique<Rank>(machine, options, measure_scratch<Rank>(meta, options));
}

}  // namespace stoa::infer
