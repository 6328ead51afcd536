// A model whose keys and values are in a pool of blocks: rows of many sequences go through it in one pass.
// Memory is declared once, exactly. The logits of a token have the same bits whatever else is in its pass, as
// long as the backend keeps rows apart (ops/cpu/gemm.h).
#pragma once

#include <optional>

#include "infer/engine/pass_plan.h"
#include "infer/length_tables.h"
#include "infer/open_model.h"

namespace stoa::infer {

struct PagedDecoderOptions {
  model::ModelSpec model;
  nn::Precision precision;
  PassLimits limits;
  // Attention finds keys by tables of blocks; otherwise a sequence has one block and its keys are neighbours.
  bool tables = true;
};

class PagedDecoder final : public PassModel {
 public:
  // `scratch_bytes`: what measure_scratch found; none on a meta machine.
  PagedDecoder(Machine& machine, const PagedDecoderOptions& options,
               std::optional<std::size_t> scratch_bytes);

  const PassLimits& limits() const override { return options_.limits; }
  std::span<const float> run(const PassPlan& plan) override;
  void share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) override;

  void dry_run();
  LoadedChunk& chunk() { return chunk_; }
  // Bytes of keys, values and states.
  std::size_t cache_bytes();

 private:
  struct Rows;
  void copy_block(BlockId from, BlockId to);
  // Restores what a table that depends on the length of the text demands of the only sequence.
  void prepare_alone(const PassSegment& segment);
  TensorView stage(Arena::Id id, std::span<const std::int32_t> values) { return chunk_.put(id, values); }
  void run_segments(std::span<const PassSegment> segments);

  const PagedDecoderOptions options_;
  LoadedChunk chunk_;
  const LengthTables tables_;
  Arena::Id tokens_, positions_, q_begin_, k_begin_, k_count_, logits_;
  std::vector<bool> linear_;                                // layers of linear attention
  std::vector<std::pair<Arena::Id, Arena::Id>> cache_ids_;  // keys and values, or linear attention's state
  nn::KvCache cache_;
  std::vector<std::int32_t> history_;  // the tokens of the only sequence, where tables depend on its length
  std::int64_t reached_ = 0;           // longest text for which a key in the cache was made
  std::vector<float> host_logits_;
};

// What a model is loaded for; what is not given follows from the model.
struct EngineUse {
  std::optional<std::int64_t> context;
  std::optional<double> cache_bytes;  // of keys and values; none: of one context, or 1 GB if that is more
  std::int64_t sequences = 32;        // at the same time
  std::int64_t pass_tokens = 512;
  bool tokenizer = true;  // is one needed? It is read before the weights
};
// Whether several texts can use the same cached keys: not where a layer keeps a state or a table depends on
// the length of the text, nor with virtual tokens or on a device.
bool can_share_keys(OpenModel& model);
// Bytes of keys and values of one token.
std::size_t bytes_per_token(const model::ModelConfig& config, DType type);
// ConfigError: not a model that continues a text; virtual tokens in front of it; memory for less than one
// block.
std::unique_ptr<PagedDecoder> load_paged_decoder(OpenModel& model, const EngineUse& use);
// "keys and values: 1.00 GB for 43690 tokens, 5 texts of 8192; up to 32 at once"
std::string describe_room(PagedDecoder& decoder);

}  // namespace stoa::infer
