// A model loaded for the engine: its weights, and the pool of its keys and values. Memory is declared once,
// exactly.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "infer/engine/adapter_set.h"
#include "infer/engine/paged_model.h"
#include "infer/open_model.h"

namespace stoa::infer {

class PagedDecoder final : public PassModel {
 public:
  // `scratch_bytes`: what measure_scratch found; none on a meta machine.
  PagedDecoder(Machine& machine, const PagedModel::Options& options,
               std::optional<std::size_t> scratch_bytes);

  const PassLimits& limits() const override { return model_.limits(); }
  PoolMemory pool() const override { return pool_; }
  std::span<const float> run(const PassPlan& plan) override { return model_.run(plan); }
  bool finds_tokens() const override { return model_.finds_tokens(); }
  std::span<const float> run_wishes(const PassPlan& plan, std::span<const RowWish> wishes,
                                    std::span<FoundToken> found) override {
    return model_.run_wishes(plan, wishes, found);
  }
  std::span<const float> losses(const PassPlan& plan, std::span<const std::int32_t> labels) override {
    return model_.losses(plan, labels);
  }
  void share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) override {
    model_.share_out(tasks, body);
  }

  void dry_run() { model_.dry_run(); }
  const PagedModel::Options& options() const { return options_; }
  LoadedChunk& chunk() { return chunk_; }
  AdapterSet& adapters() { return adapters_; }

 private:
  const PagedModel::Options options_;
  LoadedChunk chunk_;
  AdapterSet adapters_;
  PagedModel model_;
  PoolMemory pool_;
};

// Memory for keys and values that holds not even one block.
class PoolTooSmall : public ConfigError {
 public:
  using ConfigError::ConfigError;
};

// What a model is loaded for; what is not given follows from the model.
struct EngineUse {
  std::optional<std::int64_t> context = {};
  std::optional<double> cache_bytes =
      {};                       // of keys and values; none: of one context, or 1 GB if that is more
  std::int64_t sequences = 32;  // at the same time
  std::int64_t pass_tokens = 512;
  std::int64_t scored = 128;  // tokens of a pass whose logits may be asked for; at least one per sequence
  bool tokenizer = true;      // is one needed? It is read before the weights
  bool losses = false;        // PagedModel::Options::losses
  std::optional<DType> cache = {};  // of keys and values (infer/cache_type.h); none: chosen by the model
  // Of encoder-decoders, which are refused unless `pairs`: `context` is of the targets; the longest source,
  // as many tokens where it is not given.
  bool pairs = false;
  std::optional<std::int64_t> source_tokens = {};
};
// The type of a model's keys and values. Makes its machine. ConfigError as of infer/cache_type.h.
DType cache_type(OpenModel& model, std::optional<DType> asked);
// Bytes of keys and values of one token on a rank, which are kept in this type.
std::size_t bytes_per_token(const model::ModelConfig& config, DType type, const RankShare& share = {});
// On the rank that has most: stages of an encoder keep none.
std::size_t most_bytes_per_token(const model::ModelConfig& config, DType type, RankShare share);
// PoolTooSmall: memory for less than one block.
// `type`: of keys and values; `share`: of any rank, all have as many blocks.
PassLimits pass_limits(const model::ModelSpec& model, DType type, const EngineUse& use,
                       const RankShare& share = {});
// Whether an adapter is computed with the numbers of the model's weights (DoRA): those that are in blocks of
// a quantised file are decoded then, for the model, too.
bool needs_numbers(const AdapterFiles& adapter);
// Whether a state or a table of one text cannot serve several: texts are read one after the other.
bool reads_one_text(const model::ModelConfig& config);
// Whether it is an encoder-decoder. ConfigError: a model that cannot be used so.
bool check_kind(const OpenModel& model, const EngineUse& use);
// How a PagedDecoder of the model is built: what OpenModel::measure() needs. ConfigError: as below.
PagedModel::Options paged_options(OpenModel& model, const EngineUse& use,
                                  std::span<const AdapterFiles> adapters = {}, const RankShare& share = {});
// With adapters of the model that requests choose by their number, from 1. ConfigError: not a model that
// continues a text, or with `use.pairs` an encoder-decoder; adapters of one that reads one text at a time, or
// of an encoder-decoder.
std::unique_ptr<PagedDecoder> load_paged_decoder(OpenModel& model, const EngineUse& use,
                                                 std::span<const AdapterFiles> adapters = {});
// One that is built so, with its weights; `adapters` are those of the options.
std::unique_ptr<PagedDecoder> load_share(OpenModel& model, const PagedModel::Options& options,
                                         std::span<const AdapterFiles> adapters);

}  // namespace stoa::infer
