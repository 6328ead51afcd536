// What must not change a bit: recomputation, splitting of backward, slots, padding, company in the process.
#include <gtest/gtest.h>

#include <cmath>
#include <thread>

#include "model/test_kinds.h"
#include "model/test_model.h"

namespace stoa::model {
namespace {

using testing::Batch;
using testing::config_of;
using testing::Kind;
using testing::Model;
using enum testing::Kind;

struct StepOutcome {
  double loss = 0;
  std::vector<std::vector<std::byte>> gradients;
  std::size_t saved = 0;
  bool operator==(const StepOutcome& other) const {
    return loss == other.loss && gradients == other.gradients;
  }
};

struct Way {
  nn::RecomputeOptions recompute = {};
  bool split = false;
  std::uint64_t seed = 3;
};

struct Precisions {
  const char* name;
  nn::Precision precision;
  bool cpu = false;
  testing::Machine machine() const { return cpu ? testing::cpu() : testing::reference(); }
};
constexpr Precisions kSettings[] = {{"fp64", {DType::kF64, DType::kF64}},
                                    {"fp32", {DType::kF32, DType::kF32}},
                                    {"bf16", {DType::kBF16, DType::kBF16}},
                                    {"bf16_fp32_stream", {DType::kBF16, DType::kF32}},
                                    {"cpu_fp32", {DType::kF32, DType::kF32}, true},
                                    {"cpu_bf16", {DType::kBF16, DType::kBF16}, true},
                                    {"cpu_fp16", {DType::kF16, DType::kF16}, true},
                                    {"cpu_bf16_fp32_stream", {DType::kBF16, DType::kF32}, true}};

// Two rows of 8 tokens for the kind of model.
Batch rows_for(const ModelConfig& config, std::uint64_t seed) {
  if (config.kind == ModelKind::kBert) return Batch::masked({8, 8}, 8, 19, seed);
  return Batch(2, testing::ids(16, 19, seed), testing::ids(16, 19, seed + 1));
}

StepOutcome run(const ModelConfig& config, const Precisions& setting, const Way& way) {
  ChunkOptions o;
  o.layers = config.num_layers;
  o.precision = setting.precision;
  o.tokens = 2 * config.encoder_seq_length;
  o.split_backward = way.split;
  o.recompute = way.recompute;
  Model model(resolve_model(config), o, setting.machine());
  model.initialize_all(way.seed);
  std::vector<Batch> batches;
  for (std::uint64_t i = 0; i < 3; ++i) {
    batches.push_back(rows_for(config, way.seed + 10 * i));
    batches.back().first_sample = static_cast<std::int64_t>(2 * i);
  }
  StepOutcome out;
  out.loss = model.step(batches, way.split);
  out.gradients = model.gradient_bytes();
  out.saved = model.chunk.saved_bytes();
  return out;
}

class Equality : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  ModelConfig config() const { return config_of(std::get<0>(GetParam())); }
  const Precisions& setting() const { return kSettings[std::get<1>(GetParam())]; }
};

TEST_P(Equality, RecomputeAndSplitChangeNoBit) {
  using nn::RecomputeLevel;
  using nn::RecomputeScope;
  const StepOutcome plain = run(config(), setting(), {});
  ASSERT_TRUE(std::isfinite(plain.loss));
  std::size_t last = plain.saved;
  const nn::RecomputeOptions ways[] = {{RecomputeLevel::kSelective, RecomputeScope::kUniform, 1},
                                       {RecomputeLevel::kFull, RecomputeScope::kBlock, 3},
                                       {RecomputeLevel::kFull, RecomputeScope::kUniform, 1},
                                       {RecomputeLevel::kFull, RecomputeScope::kUniform, 2},
                                       {RecomputeLevel::kFull, RecomputeScope::kUniform, 5}};
  for (const auto& recompute : ways) {
    for (const bool split : {false, true}) {
      const StepOutcome other = run(config(), setting(), {recompute, split});
      EXPECT_TRUE(other == plain) << "level " << static_cast<int>(recompute.level) << " scope "
                                  << static_cast<int>(recompute.scope) << " layers " << recompute.layers
                                  << " split " << split;
      if (!split && recompute.scope == RecomputeScope::kUniform) {
        EXPECT_LT(other.saved, last);
        last = other.saved;
      }
    }
  }
  EXPECT_TRUE(run(config(), setting(), {{}, true}) == plain) << "split";
  EXPECT_FALSE(run(config(), setting(), {{}, false, 4}) == plain) << "another seed";
}

TEST_P(Equality, VocabularyPaddingChangesNothing) {
  ModelConfig padded = config(), bare = config();
  bare.make_vocab_size_divisible_by = 1;
  const StepOutcome a = run(padded, setting(), {}), b = run(bare, setting(), {});
  EXPECT_EQ(a.loss, b.loss);
  // The embedding's gradient: same bits in the rows of the vocabulary, zeros beyond.
  const std::size_t first = config().bert.relative_attention_num_buckets ? 1 : 0;  // what stands before it
  const auto& wide = a.gradients[first];
  const auto& narrow = b.gradients[first];
  ASSERT_LT(narrow.size(), wide.size());
  EXPECT_TRUE(std::equal(narrow.begin(), narrow.end(), wide.begin()));
  EXPECT_TRUE(std::all_of(wide.begin() + static_cast<std::ptrdiff_t>(narrow.size()), wide.end(),
                          [](std::byte x) { return x == std::byte{0}; }));
}

TEST_P(Equality, TwoModelsInOneProcessDoNotMeet) {
  const StepOutcome alone[] = {run(config(), setting(), {{}, false, 3}),
                               run(config(), setting(), {{}, false, 8})};
  ASSERT_FALSE(alone[0] == alone[1]);
  StepOutcome together[2];
  std::thread first([&] { together[0] = run(config(), setting(), {{}, false, 3}); });
  std::thread second([&] { together[1] = run(config(), setting(), {{}, false, 8}); });
  first.join();
  second.join();
  EXPECT_TRUE(together[0] == alone[0]);
  EXPECT_TRUE(together[1] == alone[1]);
}

// Every tensor that is declared as saved is written by forward and matters to backward.
TEST_P(Equality, EverySavedTensorIsWrittenAndRead) {
  const ModelConfig c = config();
  const ModelSpec spec = resolve_model(c);
  for (const auto level :
       {nn::RecomputeLevel::kNone, nn::RecomputeLevel::kSelective, nn::RecomputeLevel::kFull}) {
    ChunkOptions o;
    o.layers = c.num_layers;
    o.precision = setting().precision;
    o.tokens = 16;
    o.recompute.level = level;
    Model model(spec, o, setting().machine());
    model.initialize_all(3);
    Batch batch = rows_for(c, 1);
    model.step(batch);
    const auto expected = model.gradient_bytes();
    const auto& table = model.chunk.tables()[0];
    for (std::size_t i = 0; i < table.activations().size(); ++i) {
      const auto& activation = table.activations()[i];
      if (activation.keep != nn::Keep::kSave) continue;
      bool written = true;
      model.before_forward = [&](TensorView slot) {
        std::fill_n(static_cast<unsigned char*>(slot.data), slot.bytes(), static_cast<unsigned char>(0xff));
      };
      model.before_backward = [&](TensorView slot) {
        auto* bytes = static_cast<unsigned char*>(slot.data) + table.offset(static_cast<int>(i));
        const std::size_t element = size_of(activation.tensor.dtype);
        for (std::size_t at = 0; at < activation.tensor.bytes(); at += element)
          written = written &&
                    !std::all_of(bytes + at, bytes + at + element, [](unsigned char x) { return x == 0xff; });
        // Floats become NaN; numbers of rows and experts stay valid ones.
        std::fill_n(bytes, activation.tensor.bytes(),
                    static_cast<unsigned char>(is_float(activation.tensor.dtype) ? 0xff : 0));
      };
      model.step(batch);
      EXPECT_TRUE(written) << activation.tensor.name << " level " << static_cast<int>(level);
      EXPECT_NE(model.gradient_bytes(), expected)
          << activation.tensor.name << " level " << static_cast<int>(level);
    }
  }
}

std::string name_of_case(const ::testing::TestParamInfo<std::tuple<int, int>>& test) {
  static constexpr const char* kKinds[] = {"gpt2_",
                                           "llama_",
                                           "experts_",
                                           "bert_",
                                           "bert_no_dropout_",
                                           "parallel_",
                                           "norms_after_",
                                           "norms_both_",
                                           "gemma_",
                                           "alibi_",
                                           "latent_",
                                           "gpt_oss_",
                                           "latent_bias_",
                                           "bias_parts_",
                                           "multipliers_",
                                           "one_norm_",
                                           "gated_experts_",
                                           "windowed_encoder_",
                                           "relative_encoder_",
                                           "linear_"};
  return std::string(kKinds[std::get<0>(test.param)]) + kSettings[std::get<1>(test.param)].name;
}

INSTANTIATE_TEST_SUITE_P(Families, Equality,
                         ::testing::Combine(::testing::Range(0, static_cast<int>(kKinds)),
                                            ::testing::Range(0, 8)),
                         name_of_case);

// Rows that end early: a microbatch of fewer tokens than memory was declared for is the same microbatch.
TEST(Padding, RoomForMoreTokensChangesNoBit) {
  const ModelSpec spec = resolve_model(config_of(kBert));
  std::vector<std::vector<std::vector<std::byte>>> gradients;
  for (const std::int64_t room : {11, 16}) {
    ChunkOptions o;
    o.layers = 5;
    o.precision = {DType::kBF16, DType::kF32};
    o.tokens = room;
    Model model(spec, o, testing::cpu());
    model.initialize_all(3);
    Batch batch = Batch::masked({8, 3}, 8, 19, 1);
    ASSERT_TRUE(std::isfinite(model.step(batch)));
    gradients.push_back(model.gradient_bytes());
  }
  EXPECT_EQ(gradients[0], gradients[1]);
}

// Dropout follows the place of a token in its row, not in the microbatch.
TEST(Padding, RowsAreWhatTheyAreAlone) {
  ModelConfig config = config_of(kBert);
  config.bert.binary_head = false;
  const ModelSpec spec = resolve_model(config);
  ChunkOptions o;
  o.layers = 5;
  o.precision = testing::fp64();
  o.tokens = 16;
  Model together(spec, o, testing::reference()), apart(spec, o, testing::reference());
  Batch both = Batch::masked({3, 6}, 8, 19, 1);
  std::vector<Batch> rows;
  for (std::int64_t r = 0; r < 2; ++r) {
    const std::int32_t begin = both.row_begin[static_cast<std::size_t>(r)],
                       end = both.row_begin[static_cast<std::size_t>(r) + 1];
    Batch row = Batch::masked({end - begin}, 8, 19, 1);
    row.first_sample = row.sample[0] = r;
    std::copy(both.tokens.begin() + begin, both.tokens.begin() + end, row.tokens.begin());
    std::copy(both.types.begin() + begin, both.types.begin() + end, row.types.begin());
    std::copy(both.labels.begin() + begin, both.labels.begin() + end, row.labels.begin());
    for (std::size_t i = 0; i < row.masked_labels.size(); ++i)
      row.masked_labels[i] = row.labels[static_cast<std::size_t>(row.masked_rows[i])];
    rows.push_back(row);
  }
  together.initialize_all(3), apart.initialize_all(3);
  EXPECT_NEAR(together.step(both), apart.step(rows), 1e-13);
  const auto a = together.canonical("layers.0.attention.q.weight", true),
             b = apart.canonical("layers.0.attention.q.weight", true);
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-13);
}

// Two chunks of a pipeline give the loss of one, and the same gradients.
TEST(Pipeline, TwoChunksAreOneModel) {
  const ModelConfig config = config_of(kGpt2);
  const ModelSpec spec = resolve_model(config);
  ChunkOptions whole;
  whole.layers = 5;
  whole.precision = testing::fp64();
  whole.tokens = 16;
  ChunkOptions first = whole, second = whole;
  first.layers = 2;
  first.head = false;
  second.first_layer = 2;
  second.layers = 3;
  second.embedding = false;
  Model one(spec, whole, testing::reference()), a(spec, first, testing::reference()),
      b(spec, second, testing::reference());
  for (Model* m : {&one, &a, &b}) m->initialize_all(6);
  Batch batch(2, testing::ids(16, 19, 1), testing::ids(16, 19, 2));
  const double loss = one.step(batch);

  const nn::BatchView view = batch.view();
  nn::Pass pa = a.pass(view, true);
  nn::Pass pb = b.pass(view, true);
  ops::run(pb.ops, ops::BeginStep{.state = pb.state, .tokens = 16});
  const TensorSpec boundary = a.chunk.boundary();
  const TensorView stream = a.new_memory(boundary.dtype, boundary.shape),
                   back = a.new_memory(boundary.dtype, boundary.shape);
  auto slot_a =
      a.chunk.make_slot(a.new_memory(DType::kU8, {static_cast<std::int64_t>(a.chunk.saved_bytes())}));
  auto slot_b =
      b.chunk.make_slot(b.new_memory(DType::kU8, {static_cast<std::int64_t>(b.chunk.saved_bytes())}));
  a.chunk.forward(pa, slot_a, {}, stream);
  b.chunk.forward(pb, slot_b, stream, {});
  b.chunk.backward(pb, slot_b, nn::Which::kBoth, {}, back);
  a.chunk.backward(pa, slot_a, nn::Which::kBoth, back, {});
  EXPECT_EQ(b.slot(ops::StepSlot::kLossSum) / 16, loss);
  EXPECT_EQ(a.canonical("layers.1.mlp.up.weight", true), one.canonical("layers.1.mlp.up.weight", true));
  EXPECT_EQ(b.canonical("layers.4.attention.k.weight", true),
            one.canonical("layers.4.attention.k.weight", true));
  auto tied = a.canonical("embedding.tokens.weight", true);
  const auto head = b.canonical("embedding.tokens.weight", true);
  for (std::size_t i = 0; i < tied.size(); ++i) tied[i] += head[i];
  EXPECT_EQ(tied, one.canonical("embedding.tokens.weight", true));
}

// Token by token through a cache whose blocks lie in any order = all at once.
TEST(Generation, CacheGivesTheSameLogits) {
  for (const Kind kind : {kGpt2, kLlama, kParallel, kNormsAfter, kNormsBoth, kGemma, kAlibi, kLatent, kGptOss,
                          kMultipliers, kOneNorm, kGatedExperts, kLinear}) {
    SCOPED_TRACE(kind);
    const ModelConfig config = config_of(kind);
    ChunkOptions o;
    o.layers = config.num_layers;
    o.precision = testing::fp64();
    o.tokens = 8;
    Model model(resolve_model(config), o, testing::reference());
    model.initialize_all(2);
    const auto tokens = testing::ids(8, 19, 4);
    Batch all(1, tokens, tokens);
    const auto expected = model.logits(all);

    nn::KvCache cache;
    for (std::int64_t l = 0; l < config.num_layers; ++l) {
      if (config.linear.is_linear(l)) {
        const StateSizes states = state_sizes(config);
        nn::KvLayer& layer = cache.layers.emplace_back();
        layer.convolved = model.new_memory(DType::kF64, states.convolved);
        layer.state = model.new_memory(DType::kF64, states.state);
        for (const TensorView view : {layer.convolved, layer.state})
          std::fill_n(view.as<double>(), view.elements(), 0.0);
        continue;
      }
      const CacheSizes sizes = cache_sizes(config);
      const Shape shape = ops::CacheShape(6, sizes.heads, 2, sizes.width).shape();
      const TensorView keys = model.new_memory(DType::kF64, shape);
      cache.layers.push_back({keys, sizes.shared ? keys : model.new_memory(DType::kF64, shape), {}, {}});
      for (const TensorView view : {cache.layers.back().keys, cache.layers.back().values})
        std::fill_n(view.as<double>(), view.elements(), 0.0);
    }
    const std::vector<std::int32_t> blocks{5, 2, 0, 3};
    // Five tokens at once, then one at a time.
    for (std::int32_t begin = 0, count = 5; begin < 8; begin += count, count = 1) {
      Batch piece(1, {tokens.begin() + begin, tokens.begin() + begin + count},
                  {tokens.begin(), tokens.begin() + count});
      for (std::int32_t i = 0; i < count; ++i) piece.positions[static_cast<std::size_t>(i)] = begin + i;
      piece.k_count[0] = begin + count;
      nn::BatchView view = piece.view();
      view.segments.longest_k = begin + count;
      view.segments.k_begin = model.new_memory(DType::kI32, {1, std::ssize(blocks)});
      std::ranges::copy(blocks, view.segments.k_begin.as<std::int32_t>());
      nn::Pass pass = model.pass(view, false);
      pass.grads = nullptr;
      cache.own = model.new_memory(DType::kI32, {count});
      for (std::int32_t i = 0; i < count; ++i)
        cache.own.as<std::int32_t>()[i] =
            2 * blocks[static_cast<std::size_t>(begin + i) / 2] + (begin + i) % 2;
      pass.cache = &cache;
      const std::vector<std::int32_t> rows{count - 1};
      const TensorView logits = model.new_memory(DType::kF64, {1, 24});
      Chunk::Outputs outputs;
      outputs.rows = rows;
      outputs.logits = logits;
      model.chunk.infer(pass, {}, outputs);
      for (std::int64_t v = 0; v < 19; ++v)
        EXPECT_NEAR(logits.as<double>()[v], expected[static_cast<std::size_t>((begin + count - 1) * 19 + v)],
                    1e-12);
    }
  }
}

TEST(Initial, DependsOnNameAndElementAlone) {
  const ModelConfig config = config_of(kLlama);
  ChunkOptions o;
  o.layers = 5;
  o.precision = testing::fp64();
  Model model(resolve_model(config), o, testing::reference());
  model.initialize_all(21);
  const auto k = model.canonical("layers.2.attention.k.weight");
  const PhiloxKey key = philox_key(21, RandomPurpose::kInit, "layers.2.attention.k.weight");
  for (std::size_t i = 0; i < k.size(); i += 17) EXPECT_EQ(k[i], 0.02 * philox_normal(key, i));
  const auto out = model.canonical("layers.2.attention.out.weight");
  const PhiloxKey out_key = philox_key(21, RandomPurpose::kInit, "layers.2.attention.out.weight");
  EXPECT_EQ(out[5], 0.02 / std::sqrt(10.0) * philox_normal(out_key, 5));
  // One thread or three: the same.
  const auto& spec = model.chunk.params().specs()[0];
  const TensorView a = model.new_memory(DType::kBF16, spec.shard.local),
                   b = model.new_memory(DType::kBF16, spec.shard.local);
  WorkerPool one(1), three(3);
  initialize(spec, 21, a, one);
  initialize(spec, 21, b, three);
  EXPECT_EQ(Model::doubles(a), Model::doubles(b));
  EXPECT_EQ(Model::doubles(a.slice(19, 5)), std::vector<double>(5 * 16, 0.0));  // padding
}

}  // namespace
}  // namespace stoa::model
