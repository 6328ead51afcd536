// A model's passes over keys and values in a pool of blocks: rows of many sequences go through it together.
// An encoder-decoder reads sources in the passes that begin their targets: see Scheduler.
// Declares its buffers in an arena that someone else commits, and runs with someone else's weights: those of
// a loaded model, or of a training rank that samples text. The logits of a token have the same bits whatever
// else is in its pass, as long as the backend keeps rows apart (ops/cpu/gemm.h).
#pragma once

#include <array>
#include <functional>
#include <map>
#include <vector>

#include "device/arena.h"
#include "infer/engine/pass_plan.h"
#include "infer/engine/source_rows.h"
#include "infer/length_tables.h"
#include "infer/pass_parts.h"
#include "infer/rank_share.h"
#include "ops/op_recording.h"

namespace stoa::infer {

class PagedModel final : public PassModel {
 public:
  struct Options {
    model::ModelSpec model;
    nn::Precision precision;
    PassLimits limits;
    // The model with each of the adapters that segments choose (PassParts::adapters).
    std::vector<model::ModelSpec> adapters = {};
    bool losses = false;  // losses() may be called
    // The type of keys and values (infer/cache_type.h); none: that of the computation.
    std::optional<DType> cache = {};
    DType kept() const { return cache.value_or(precision.compute); }
    // With several ranks, each runs the same passes; rank 0 gets logits and losses.
    RankShare share = {};
  };

  // `parts`: called in every pass; the arena is committed by then.
  PagedModel(Arena& arena, const Options& options, std::function<PassParts()> parts);

  const PassLimits& limits() const override { return options_.limits; }
  std::span<const float> run(const PassPlan& plan) override;
  bool finds_tokens() const override;
  std::span<const float> run_wishes(const PassPlan& plan, std::span<const RowWish> wishes,
                                    std::span<FoundToken> found) override;
  std::span<const float> losses(const PassPlan& plan, std::span<const std::int32_t> labels) override;
  void share_out(std::int64_t tasks, const std::function<void(std::int64_t)>& body) override;

  // The largest passes, on a meta machine.
  void dry_run();

 private:
  void open_cache(const PassParts& parts);
  // Rows of logits on a GPU, of each what is wished for; without wishes, logits of all.
  std::span<const float> read_pinned(Machine& machine, const TensorView& logits,
                                     std::span<const RowWish> wishes = {}, std::span<FoundToken> found = {});
  bool pins_logits(const Machine& machine) const;
  // With several ranks: what the ranks with the head found, on rank 0.
  std::span<const float> gather_logits(const PassParts& parts, std::int64_t rows);
  void gather_losses(const PassParts& parts, std::int64_t tokens);
  void copy_block(const PassParts& parts, BlockId from, BlockId to);
  // Restores what a table that depends on the length of the text demands of the only sequence.
  void prepare_alone(const PassParts& parts, const PassSegment& segment);
  // All segments of a pass; `labels`: of its tokens, whose losses become losses_, or none.
  void run_plan(const PassParts& parts, const PassPlan& plan, std::span<const std::int32_t> labels);
  // Logits become rows of logits_ from `row` on; returns how many. With labels, losses become losses_
  // instead, from `row` on.
  std::int64_t run_segments(const PassParts& parts, std::span<const PassSegment> segments,
                            std::int64_t row = 0, std::span<const std::int32_t> labels = {});
  // How many texts, and the bound of their keys.
  using RecordingKey = std::array<std::int64_t, 2>;
  // The operations of a pass on a host, and how much scratch memory was in use in front of theirs.
  struct Recorded {
    std::size_t scratch;
    ops::OpRecording operations;
  };
  using Recordings = std::map<RecordingKey, Recorded>;
  void forget_recording(Recordings::iterator recording);
  // Executes what `body` did in an earlier pass with this key, or calls it if there was none: it does nothing
  // but operations, the same every time.
  void repeat(ops::OpContext& ops, const RecordingKey& key, const std::function<void(ops::OpContext&)>& body);

  Arena& arena_;
  const Options options_;
  const std::function<PassParts()> parts_;
  const LengthTables tables_;
  std::optional<SourceRows> sources_;  // of an encoder-decoder
  Arena::Id tables_of_pass_;  // its tokens, their positions and rows of the cache; segments and their blocks
  Arena::Id logits_, draws_, found_;  // what tokens are drawn, and tokens that were found
  Arena::Id others_;                  // logits of other ranks, on rank 0 of several
  Arena::Id labels_, mask_, losses_;  // where losses are asked for
  std::vector<bool> linear_;          // layers of linear attention
  std::vector<std::pair<Arena::Id, Arena::Id>> cache_ids_;  // keys and values, or linear attention's state
  nn::KvCache cache_;
  Recordings recordings_;
  std::size_t recorded_bytes_ = 0;
  std::vector<std::int32_t> history_;  // the tokens of the only sequence, where tables depend on its length
  std::int64_t reached_ = 0;           // longest text for which a key in the cache was made
  std::vector<float> host_logits_, host_losses_;
  Buffer pinned_logits_, pinned_found_;  // where a GPU writes logits, and tokens that it found, itself
};

}  // namespace stoa::infer
