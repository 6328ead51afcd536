// A model split over the ranks of a tensor-parallel and a context-parallel group is the model of one rank, in
// fp64.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "device/host/inline_stream.h"
#include "model/test_model.h"
#include "parallel/thread_contexts.h"

namespace stoa::model {
namespace {

using testing::Batch;
using testing::Model;

constexpr std::int64_t kLength = 12, kRows = 2;

ModelConfig gpt2() {
  ModelConfig c;
  c.num_layers = 2;
  c.hidden_size = 16;
  c.num_attention_heads = 4;
  c.ffn_hidden_size = 22;
  c.encoder_seq_length = kLength;
  c.vocab_size = 19;
  c.make_vocab_size_divisible_by = 8;
  c.init_method_std = 0.2;
  return c;
}

ModelConfig llama(std::int64_t groups) {
  ModelConfig c = gpt2();
  c.position_embedding_type = PositionEmbedding::kRope;
  c.normalization = Normalization::kRmsNorm;
  c.activation = Activation::kSwiglu;
  c.bias = BiasKind::kNone;
  c.share_embeddings_and_output_weights = false;
  c.num_query_groups = groups;
  return c;
}

struct SplitCase {
  const char* name;
  ModelConfig config;
  std::vector<std::int64_t> documents = {};
};
void PrintTo(const SplitCase& c, std::ostream* out) { *out << c.name; }

std::vector<SplitCase> split_cases() {
  std::vector<SplitCase> out{
      {"gpt2", gpt2()}, {"llama", llama(4)}, {"grouped", llama(2)}, {"multi_query", llama(1)}};
  SplitCase c{"dropout", gpt2()};
  c.config.hidden_dropout = 0.2;
  c.config.attention_dropout = 0.3;
  c.config.embedding_dropout = 0.1;
  out.push_back(c);
  c = {"qk_norm_grouped_bias", gpt2()};
  c.config.qk_layernorm = true;
  c.config.num_query_groups = 2;
  out.push_back(c);
  for (const bool plain : {false, true}) {
    c = {plain ? "latent_attention_plain_queries" : "latent_attention", llama(4)};
    c.config.qk_layernorm = false;
    c.config.latent = {true, {}, 3, 4, 2, 3};
    if (!plain) c.config.latent.q_lora_rank = 5;
    c.config.attention_dropout = plain ? 0.2 : 0;
    out.push_back(c);
  }
  c = {"latent_attention_bias", llama(4)};
  c.config.latent = {true, 5, 3, 4, 2, 3};
  c.config.qkv_bias = c.config.attention_output_bias = true;
  out.push_back(c);
  c = {"biases_by_part_window_list", llama(2)};
  c.config.attention_output_bias = c.config.mlp_bias = true;
  c.config.window_size = 2;
  c.config.window_layers = {0};
  out.push_back(c);
  for (const double dropout : {0.0, 0.2}) {
    c = {dropout > 0 ? "bert_dropout" : "bert", gpt2()};
    c.config.kind = ModelKind::kBert;
    c.config.activation = Activation::kGelu;
    c.config.bert.first_position = dropout > 0 ? 2 : 0;
    c.config.bert.binary_head = dropout == 0;
    c.config.hidden_dropout = c.config.attention_dropout = c.config.embedding_dropout = dropout;
    out.push_back(c);
  }
  c = {"bert_of_megatron", gpt2()};
  c.config.kind = ModelKind::kBert;
  c.config.bert.pre_norm = true;
  c.config.bert.embedding_norm = false;
  c.config.embedding_dropout = 0.2;
  out.push_back(c);
  c = {"parallel_residual_dropout", gpt2()};
  c.config.use_parallel_residual = true;
  c.config.hidden_dropout = 0.2;
  out.push_back(c);
  c = {"norms_after", llama(2)};
  c.config.norm_placement = NormPlacement::kAfter;
  out.push_back(c);
  for (const std::int64_t groups : {1, 2, 4}) {
    c = {groups == 1   ? "norm_all_heads_multi_query"
         : groups == 2 ? "norm_all_heads_grouped"
                       : "norm_all_heads",
         llama(groups)};
    c.config.norm_placement = NormPlacement::kAfter;
    c.config.qk_layernorm = c.config.qk_layernorm_all_heads = true;
    out.push_back(c);
  }
  c = {"norms_before_and_after_dropout", llama(2)};
  c.config.norm_placement = NormPlacement::kBoth;
  c.config.hidden_dropout = 0.2;
  out.push_back(c);
  c = {"gemma", llama(2)};
  c.config.window_size = 2;
  c.config.window_attn_skip_freq = 2;
  c.config.rope_local_base_freq = 50;
  c.config.query_pre_attn_scalar = 5;
  c.config.attn_logit_softcapping = 0.5;
  c.config.final_logit_softcapping = 0.5;
  c.config.apply_embedding_scaling = true;
  c.config.activation = Activation::kGegluTanh;
  out.push_back(c);
  c = {"alibi_embedding_norm", gpt2()};
  c.config.position_embedding_type = PositionEmbedding::kAlibi;
  c.config.embedding_layernorm = true;
  c.documents = {1, 3, 7, 1};
  out.push_back(c);
  c = {"packed_window_untied", llama(2)};
  c.config.window_size = 2;
  c.config.qk_layernorm = true;
  c.documents = {1, 3, 7, 1};
  out.push_back(c);
  return out;
}

struct SplitSetting {
  parallel::TensorPlace place;
  nn::RecomputeLevel recompute = nn::RecomputeLevel::kNone;
  bool split = false;
  parallel::ContextPlace context = {};
};

// What a run gives, by canonical name.
struct SplitOutcome {
  double loss = 0;
  std::map<std::string, std::vector<double>> gradients;
  std::vector<double> token_losses;
};

// Copies a rank's pieces of a parameter into canonical tensors; copies of one element must be the same bits.
void collect(const ShardSpec& shard, TensorView local, SplitOutcome& out) {
  const double* values = local.as<double>();
  for (const auto& piece : shard.pieces) {
    const std::int64_t columns = piece.global.rank() >= 2 ? piece.global.inner() : 1;
    const std::int64_t held = std::max<std::int64_t>(1, piece.column_count);
    auto& whole = out.gradients[piece.name];
    whole.resize(static_cast<std::size_t>(piece.global.elements()), std::nan(""));
    for (std::int64_t r = 0; r < piece.count; ++r)
      for (std::int64_t i = 0; i < held; ++i) {
        double& to = whole[static_cast<std::size_t>((piece.begin + r) * columns + piece.column_begin + i)];
        const double from = values[(piece.memory_row + r) * held + i];
        EXPECT_TRUE(std::isnan(to) || (piece.shared && to == from)) << piece.name << " is held twice";
        to = from;
      }
  }
}

// Two microbatches, on the ranks of a group; a group of one is the model that is not split.
SplitOutcome run(const SplitCase& what, const SplitSetting& setting) {
  const ModelSpec spec = resolve_model(what.config);
  const grid::RankGrid grid({setting.place.size, setting.context.size, 1, 1, 1});
  comm::ThreadWorld world(grid.size());
  const auto contexts = parallel::make_contexts(world, grid);
  SplitOutcome out;
  std::mutex mutex;
  std::map<std::string, int> first_copies;
  world.run([&](int rank) {
    ChunkOptions o;
    o.layers = what.config.num_layers;
    o.precision = testing::fp64();
    parallel::ContextPlace context = setting.context;
    context.rank = grid.coordinate(rank, parallel::Axis::kContext);
    o.tokens = kRows * kLength / context.size;
    o.place = setting.place;
    o.place.rank = grid.coordinate(rank, parallel::Axis::kTensor);
    o.recompute.level = setting.recompute;
    o.split_backward = setting.split;
    Model model(spec, o, testing::reference());
    model.group = &contexts[static_cast<std::size_t>(rank)];
    model.initialize_all(5);
    // Norms and biases away from one and zero, so that an exchanged or missing one shows.
    for (std::size_t p = 0; p < model.chunk.params().specs().size(); ++p)
      for (const auto& piece : model.chunk.params().specs()[p].shard.pieces) {
        if (piece.global.rank() != 1) continue;
        const TensorView view = model.get({static_cast<int>(p)}).slice(piece.memory_row, piece.count);
        const PhiloxKey key = philox_key(9, RandomPurpose::kTest, piece.name);
        for (std::int64_t i = 0; i < view.elements(); ++i)
          view.as<double>()[i] += 0.2 * philox_normal(key, static_cast<std::uint64_t>(piece.begin + i));
      }
    const bool masked = what.config.kind == ModelKind::kBert;
    std::vector<Batch> batches;
    for (std::uint64_t i = 0; i < 2; ++i) {
      batches.push_back(masked ? Batch::masked({7, 5}, kLength, 19, 10 * i + 1)
                               : Batch(kRows, testing::ids(kRows * kLength, 19, 10 * i + 1),
                                       testing::ids(kRows * kLength, 19, 10 * i + 2), what.documents));
      batches.back().first_sample = static_cast<std::int64_t>(i) * kRows;
      for (auto& s : batches.back().sample) s += batches.back().first_sample;
    }
    if (!masked) {
      batches[0].mask[3] = batches[1].mask[8] = 0;
      batches[0].labels[3] = -100;
    }
    if (!masked)
      for (auto& batch : batches) batch.cut(context);
    double loss = model.step(batches, setting.split);
    auto& group = contexts[static_cast<std::size_t>(rank)].along(parallel::Axis::kContext);
    InlineStream stream;
    group.all_reduce(TensorView(&loss, DType::kF64, {1}), comm::ReduceOp::kSum, stream)->wait();
    const auto gradients = model.whole_gradients();
    for (const TensorView gradient : gradients)
      group.all_reduce(gradient, comm::ReduceOp::kSum, stream)->wait();

    nn::BatchView view = batches[1].view();
    nn::Pass pass = model.pass(view, false);
    pass.state = {};
    Chunk::Outputs outputs;
    outputs.losses = model.new_memory(DType::kF64, {kRows * kLength / context.size});
    model.chunk.infer(pass, {}, outputs);

    const std::lock_guard lock(mutex);
    auto tokens = parallel::local_tokens(context, kRows, kLength);
    if (masked) tokens.resize(batches[1].masked_labels.size());  // losses are those of the masked ones
    out.token_losses.resize(masked ? tokens.size() : kRows * kLength, std::nan(""));
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      double& to = out.token_losses[static_cast<std::size_t>(tokens[i])];
      const double from = outputs.losses.as<double>()[i];
      EXPECT_TRUE(std::isnan(to) || to == from) << "rank " << rank << " token " << i;
      to = from;
    }
    if (rank == 0) out.loss = loss;
    if (context.rank > 0) return;  // the same gradients as those of rank 0 of its group
    for (std::size_t p = 0; p < gradients.size(); ++p) {
      const auto& parameter = model.chunk.params().specs()[p];
      collect(parameter.shard, gradients[p], out);
      for (const auto& piece : parameter.shard.pieces)
        if (piece.shared && piece.begin == 0) first_copies[piece.name] += piece.first_copy;
    }
  });
  for (const auto& [name, count] : first_copies) EXPECT_EQ(count, 1) << name << " is counted so often";
  return out;
}

void expect_close(const std::vector<double>& got, const std::vector<double>& expected,
                  const std::string& name) {
  ASSERT_EQ(got.size(), expected.size()) << name;
  double largest = 0;
  for (const double x : expected) largest = std::max(largest, std::abs(x));
  for (std::size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], 1e-12 * std::max(largest, 1e-3)) << name << " element " << i;
}

class TensorParallel : public ::testing::TestWithParam<SplitCase> {};

TEST_P(TensorParallel, IsTheModelOfOneRank) {
  const SplitOutcome one = run(GetParam(), {});
  ASSERT_TRUE(std::isfinite(one.loss));
  for (const int size : {2, 3, 4}) {
    for (const bool sequence : {false, true}) {
      SCOPED_TRACE(fmt::format("{} ranks{}", size, sequence ? ", sequence parallel" : ""));
      const parallel::TensorPlace place{0, size, sequence};
      const SplitOutcome many = run(GetParam(), {place});
      EXPECT_NEAR(many.loss, one.loss, 1e-12);
      expect_close(many.token_losses, one.token_losses, "token losses");
      ASSERT_EQ(many.gradients.size(), one.gradients.size());
      for (const auto& [name, gradient] : one.gradients)
        if (!name.ends_with("k.bias")) expect_close(many.gradients.at(name), gradient, name);
      // Recomputation and split backward change no bit of the same layout.
      for (const auto level : {nn::RecomputeLevel::kSelective, nn::RecomputeLevel::kFull}) {
        const SplitOutcome again = run(GetParam(), {place, level, level == nn::RecomputeLevel::kFull});
        EXPECT_EQ(again.loss, many.loss);
        EXPECT_EQ(again.gradients, many.gradients) << "recompute " << static_cast<int>(level);
      }
    }
  }
}

class ContextParallel : public ::testing::TestWithParam<SplitCase> {};

TEST_P(ContextParallel, IsTheModelOfOneRank) {
  using parallel::ContextKind;
  if (GetParam().config.kind == ModelKind::kBert) GTEST_SKIP() << "refused: rows end early";
  const SplitOutcome one = run(GetParam(), {});
  struct Ways {
    parallel::ContextPlace context;
    parallel::TensorPlace place;
  };
  for (const Ways& ways :
       {Ways{{0, 2, ContextKind::kAllGather}, {}}, Ways{{0, 3, ContextKind::kAllGather}, {}},
        Ways{{0, 2, ContextKind::kAllToAll}, {}}, Ways{{0, 4, ContextKind::kAllToAll}, {}},
        Ways{{0, 2, ContextKind::kRing}, {}}, Ways{{0, 3, ContextKind::kRing}, {}},
        Ways{{0, 6, ContextKind::kRing}, {}}, Ways{{0, 6, ContextKind::kHierarchical, 2}, {}},
        Ways{{0, 2, ContextKind::kAllGather}, {0, 3, true}}, Ways{{0, 2, ContextKind::kRing}, {0, 3, true}},
        Ways{{0, 2, ContextKind::kAllToAll}, {0, 2, true}}}) {
    const auto& context = ways.context;
    if (GetParam().config.query_groups() % (context.exchanging() * ways.place.size) != 0 &&
        context.exchanging() > 1)
      continue;
    if (kLength % (2 * context.size) != 0) continue;
    SCOPED_TRACE(fmt::format("{} context ranks, kind {}, {} tensor ranks", context.size,
                             static_cast<int>(context.kind), ways.place.size));
    const SplitOutcome many = run(GetParam(), {ways.place, nn::RecomputeLevel::kNone, false, context});
    EXPECT_NEAR(many.loss, one.loss, 1e-12);
    expect_close(many.token_losses, one.token_losses, "token losses");
    ASSERT_EQ(many.gradients.size(), one.gradients.size());
    for (const auto& [name, gradient] : one.gradients)
      if (!name.ends_with("k.bias")) expect_close(many.gradients.at(name), gradient, name);
    const SplitOutcome again = run(GetParam(), {ways.place, nn::RecomputeLevel::kFull, true, context});
    EXPECT_EQ(again.loss, many.loss);
    EXPECT_EQ(again.gradients, many.gradients);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ContextParallel, ::testing::ValuesIn(split_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

INSTANTIATE_TEST_SUITE_P(Models, TensorParallel, ::testing::ValuesIn(split_cases()),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace stoa::model
