// What a layer keeps for its backward pass, against the formulas of Korthikanti et al. 2022 (2205.05198,
// table 2), at the size of their 22B model on eight tensor-parallel ranks.
#include <gtest/gtest.h>

#include "device/meta/meta_device.h"
#include "ops/cpu/cpu_backend.h"
#include "ops/meta/meta_backend.h"
#include "parallel/meta_contexts.h"
#include "run/training_rank.h"

namespace stoa::plan {
namespace {

constexpr double kSequence = 2048, kBatch = 4, kHidden = 6144, kHeads = 64, kRanks = 8;

run::TrainingOptions options_22b(std::int64_t layers, bool sequence_parallel,
                                 model::RecomputeGranularity granularity) {
  model::ModelConfig config;
  config.num_layers = layers;
  config.hidden_size = static_cast<std::int64_t>(kHidden);
  config.num_attention_heads = static_cast<std::int64_t>(kHeads);
  config.encoder_seq_length = static_cast<std::int64_t>(kSequence);
  config.vocab_size = 51200;
  config.hidden_dropout = config.attention_dropout = 0.1;
  config.recompute.granularity = granularity;
  run::TrainingOptions o;
  o.model = model::resolve_model(config);
  o.precision = {DType::kBF16, DType::kBF16};
  o.micro_batch = static_cast<std::int64_t>(kBatch);
  o.length = config.encoder_seq_length;
  o.layout.grid = grid::RankGrid({static_cast<int>(kRanks), 1, 1, 1, 1});
  o.layout.sequence_parallel = sequence_parallel;
  return o;
}

// Bytes per layer that are kept for backward on rank 0, as multiples of s b h.
double kept(bool sequence_parallel, model::RecomputeGranularity granularity) {
  WorkerPool pool(1);
  ops::cpu::CpuBackend cpu(pool);
  infer::Machine meta;
  meta.device = std::make_unique<MetaDevice>();
  meta.backend = std::make_unique<ops::MetaBackend>(cpu);
  meta.stream = meta.device->create_stream();
  const auto bytes = [&](std::int64_t layers) {
    const run::TrainingOptions o = options_22b(layers, sequence_parallel, granularity);
    run::TrainingRank rank(meta, o, parallel::make_meta_context(o.layout.grid, 0, *meta.device), 0);
    double total = 0;
    for (const auto& entry : rank.arena().entries())
      if (entry.category == MemoryCategory::kActivations) total += static_cast<double>(entry.spec.bytes());
    return total;
  };
  return (bytes(3) - bytes(2)) / (kSequence * kBatch * kHidden);
}

TEST(ActivationMemory, TensorSequenceParallelAndSelectiveOfThe22BLayer) {
  using enum model::RecomputeGranularity;
  // Without sequence parallelism or recomputation the paper keeps this.
  const double paper = 10 + 24 / kRanks + 5 * kHeads * kSequence / (kHidden * kRanks);
  const double selective = kept(true, kSelective);
  EXPECT_LE(selective, 34 / kRanks);
  EXPECT_GE(paper / selective, 5);
  EXPECT_LT(kept(false, kNone), paper);
  EXPECT_LT(kept(true, kFull), selective);
  std::printf(
      "bytes per layer / s b h: paper, tensor parallel %.2f; here %.2f, with sequence parallelism %.2f, "
      "selective %.2f, full %.2f\n",
      paper, kept(false, kNone), kept(true, kNone), selective, kept(true, kFull));
}

}  // namespace
}  // namespace stoa::plan
