// Low-rank adapters (model.peft) over the ranks of layouts: they start from the same values and end at those
// of one rank, and the model below them keeps every bit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <string_view>

#include "adapted_runs.h"
#include "family_runs.h"
#include "run/base_hash.h"

namespace stoa::layouts {
namespace {

using ::testing::IsEmpty;
using Names = std::vector<std::string>;

bool is_adapter(const std::string& name) {
  return name.find(".lora_") != std::string::npos || name.find(".ia3_l") != std::string::npos ||
         name.find(".token_rows.") != std::string::npos || name.find(".adapter.") != std::string::npos;
}

void expect_base_untouched(const RunResult& start, const RunResult& result, const Names& saved = {}) {
  expect_only_trained(start, result, [&](const std::string& name) {
    return is_adapter(name) || std::find(saved.begin(), saved.end(), name) != saved.end();
  });
}

struct AdapterCase {
  const char* name;
  TestRun run;
  Names saved = {};
};
TestRun with_magnitudes(TestRun run, double dropout = 0.2) {
  run = adapted(std::move(run), dropout);
  run.config.peft.lora.use_dora = true;
  return run;
}

// Factors of outputs and inputs, of layers split by outputs and by inputs.
TestRun rescaled(TestRun run) {
  run = adapted(std::move(run), 0);
  run.config.peft.peft_scheme = model::PeftScheme::kIa3;
  return run;
}

// Of tokens in several ranks' parts of the vocabulary, neighbours and others.
TestRun with_token_rows(TestRun run) {
  run = adapted(std::move(run));
  run.config.peft.lora.target_modules = {"attention_qkv"};
  run.config.peft.trainable_token_indices = {20, 3, 4, 5};
  return run;
}

// Of the embedding and the head, besides layers: ranks have parts of A of the one and of B of the other.
TestRun of_tokens(TestRun run) {
  run = adapted(std::move(run));
  run.config.embedding_dropout = 0.1;
  run.config.peft.lora.target_modules = {"attention_qkv", "embedding.tokens", "head"};
  return run;
}

TestRun with_bottlenecks(TestRun run, model::BottleneckType type) {
  run = adapted(std::move(run), 0);
  run.config.hidden_dropout = 0.1;
  run.config.peft.peft_scheme = model::PeftScheme::kAdapter;
  run.config.peft.bottleneck.type = type;
  run.config.peft.bottleneck.adapter_dim = 5;
  return run;
}

std::vector<AdapterCase> adapter_cases() {
  std::vector<AdapterCase> out{
      {"magnitudes of one matrix for q, k and v", with_magnitudes(tiny_run(), 0)},
      {"magnitudes of some pieces", with_magnitudes(llama_like())},
      {"rows of tokens, tied", with_token_rows(tiny_run())},
      {"rows of tokens, untied", with_token_rows(llama_like())},
      {"factors", rescaled(tiny_run())},
      {"factors of chosen layers", rescaled(llama_like())},
      {"one matrix for q, k and v", adapted(tiny_run())},
      {"a branch of each piece", adapted(llama_like())},
      {"a base in 8 bits", on_packed_base(tiny_run(), model::BaseFormat::kInt8)},
      {"bottlenecks of sums", with_bottlenecks(tiny_run(), model::BottleneckType::kSequential)},
      {"bottlenecks of branches", with_bottlenecks(llama_like(), model::BottleneckType::kDoubleSequential)},
      {"bottlenecks beside the stream", with_bottlenecks(llama_like(), model::BottleneckType::kParallel)},
      {"embedding and head, tied", of_tokens(tiny_run())},
      {"embedding and head", of_tokens(llama_like())},
      {"some pieces of some layers, saved modules", adapted(llama_like()), {}}};
  out[1].run.config.peft.lora.exclude_modules = {"k_proj", "up_proj"};
  out[5].run.config.peft.ia3.target_modules = {"k_proj", "o_proj", "gate_proj", "down_proj"};
  out[5].run.config.peft.ia3.feedforward_modules = {"o_proj"};
  out.back().run.config.qkv_bias = false;
  model::PeftConfig& some = out.back().run.config.peft;
  some.lora.target_modules = {"q_proj", "v_proj", "mlp.down"};
  some.lora.layer_selection = {1, 3, 4};
  some.lora.rank_pattern = {"layers.2.*q_proj=5"};
  some.lora.alpha_pattern = {"v_proj=9"};
  some.lora.use_rslora = true;
  some.lora.loraplus_lr_ratio = 4;
  some.lora.column_init_method = model::LowRankInit::kGaussian;
  some.lora.bias = model::AdapterBias::kLoraOnly;
  some.modules_to_save = {"head", "final_norm"};
  out.back().saved = {"head.weight", "final_norm.weight", "layers.0.mlp.down.bias", "layers.2.mlp.down.bias",
                      "layers.3.mlp.down.bias"};
  return out;
}

// Stages and their schedules, ZeRO and its buckets change no bit.
TEST(Adapters, PipelinesAndShardsLikeOneRank) {
  for (const AdapterCase& c : adapter_cases()) {
    SCOPED_TRACE(c.name);
    const RunResult one = run_layout(c.run, data_parallel(1)), two = run_layout(c.run, data_parallel(2));
    EXPECT_THAT(one.faults, IsEmpty());
    EXPECT_THAT(differences(one, two, kRounding), IsEmpty());
    if (c.run.config.peft.lora.bias == model::AdapterBias::kNone)
      expect_base_untouched(weights_at_start(c.run), one);
    for (const run::Layout& layout :
         {pipeline(4), pipeline(2, "interleaved", 2), pipeline(2, "zb-h1"), pipeline(2, "zb-v", 2)}) {
      SCOPED_TRACE(layout.schedule);
      EXPECT_THAT(differences(one, run_layout(c.run, layout), 0), IsEmpty());
    }
    for (int stage = 1; stage <= 3; ++stage)
      for (const int stages : {1, 2}) {
        SCOPED_TRACE(::testing::Message() << "ZeRO " << stage << ", " << stages << " stages");
        run::Layout layout = layout_of(1, 1, 1, 2, stages);
        layout.zero_stage = stage;
        layout.bucket_bytes = 4000;
        layout.overlap_grad_reduce = stage > 1;
        EXPECT_THAT(differences(two, run_layout(c.run, layout), 0), IsEmpty());
      }
  }
}

// Tensor ranks, with and without the stream split among them, and context ranks; 4 tensor ranks share the two
// heads of keys. Megatron-Bridge's loss moved with the number of tensor ranks (its issue 5843: values drawn
// over a rank's part of the inputs), and its branches were added in another state than the base's output
// (5635).
TEST(Adapters, RanksThatSplitTensors) {
  for (const AdapterCase& c : adapter_cases()) {
    SCOPED_TRACE(c.name);
    const RunResult one = run_layout(c.run, data_parallel(1)), start = weights_at_start(c.run);
    for (const int ranks : {2, 4})
      for (const bool sequence : {false, true}) {
        run::Layout layout = layout_of(ranks, 1, 1, ranks == 2 ? 2 : 1, sequence && ranks == 2 ? 2 : 1);
        layout.sequence_parallel = sequence;
        layout.zero_stage = sequence ? 1 : 3;
        SCOPED_TRACE(::testing::Message() << ranks << " ranks, sequence parallel " << sequence);
        const RunResult split = run_layout(c.run, layout);
        EXPECT_THAT(split.faults, IsEmpty());
        EXPECT_THAT(differences(one, split, kRounding), IsEmpty());
        if (c.saved.empty()) expect_base_untouched(start, split);
      }
    const RunResult context = run_layout(c.run, layout_of(2, 2, 1, 1, 1));
    EXPECT_THAT(differences(one, context, kRounding), IsEmpty());
  }
}

// Blocks are of whole matrices, whatever part of them a rank holds.
TEST(Adapters, BaseInFourBits) {
  const TestRun run = on_packed_base(llama_like(), model::BaseFormat::kNf4);
  const RunResult one = run_layout(run, data_parallel(1)), two = run_layout(run, data_parallel(2));
  EXPECT_THAT(one.faults, IsEmpty());
  EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
  EXPECT_THAT(differences(one, run_layout(run, pipeline(2, "zb-h1")), 0), IsEmpty());
  for (int stage = 1; stage <= 3; ++stage) {
    run::Layout layout = data_parallel(2);
    layout.zero_stage = stage;
    EXPECT_THAT(differences(two, run_layout(run, layout), 0), IsEmpty());
  }
  for (const bool sequence : {false, true}) {
    run::Layout layout = layout_of(2, 1, 1, 1, sequence ? 2 : 1);
    layout.sequence_parallel = sequence;
    EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
  }
  TestRun again = run;
  again.config.recompute.granularity = model::RecomputeGranularity::kFull;
  again.config.recompute.method = model::RecomputeMethod::kUniform;
  EXPECT_THAT(differences(one, run_layout(again, data_parallel(1)), 0), IsEmpty());
  TestRun offloaded = run;
  offloaded.config.recompute.offload.cpu_offloading = true;
  EXPECT_THAT(differences(one, run_layout(offloaded, data_parallel(1)), 0), IsEmpty());
  TestRun plain = run;
  plain.config.peft.quantize_base = model::BaseFormat::kNone;
  EXPECT_NE(run_layout(plain, data_parallel(1)).losses, one.losses);
}

// Other models than decoders with dense layers: what is not a linear layer stays as it is.
TEST(Adapters, BasesInEightBitsOfFamilies) {
  for (const char* family : {"gpt-oss", "Qwen3-Next", "BERT", "T5"}) {
    SCOPED_TRACE(family);
    TestRun run = on_packed_base(family_run(family), model::BaseFormat::kInt8);
    run.config.peft.lora.adapter_dropout = 0;
    if (family == std::string_view("Qwen3-Next")) run.config.peft.lora.exclude_modules = {"q_proj"};
    const RunResult one = run_layout(run, data_parallel(1));
    EXPECT_THAT(one.faults, IsEmpty());
    EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
    EXPECT_THAT(differences(one, run_layout(run, tensor_parallel(2, true)), kRounding), IsEmpty());
  }
}

TEST(Adapters, RecomputedAndOffloadedLayers) {
  const TestRun run = with_magnitudes(llama_like());
  const RunResult one = run_layout(run, data_parallel(1));
  for (const auto granularity :
       {model::RecomputeGranularity::kSelective, model::RecomputeGranularity::kFull}) {
    TestRun again = run;
    again.config.recompute.granularity = granularity;
    if (granularity == model::RecomputeGranularity::kFull) {
      again.config.recompute.method = model::RecomputeMethod::kUniform;
      again.config.recompute.num_layers = 3;
    }
    EXPECT_THAT(differences(one, run_layout(again, data_parallel(1)), 0), IsEmpty());
    EXPECT_THAT(differences(one, run_layout(again, pipeline(2, "zb-h1")), 0), IsEmpty());
  }
  TestRun offloaded = run;
  offloaded.config.recompute.offload.cpu_offloading = true;
  EXPECT_THAT(differences(one, run_layout(offloaded, data_parallel(1)), 0), IsEmpty());
}

// Experts over ranks and in parts, latent and linear attention, encoders, encoder-decoders.
TEST(Adapters, Families) {
  for (const char* family : {"DeepSeek-V3", "gpt-oss", "Qwen3-Next", "BERT", "ModernBERT", "T5",
                             "classes of texts by a decoder"}) {
    for (const char* method : {"low rank", "magnitudes", "factors"}) {
      SCOPED_TRACE(::testing::Message() << family << ": " << method);
      TestRun run = adapted(family_run(family), 0);
      if (method == std::string_view("magnitudes")) {
        run.config.peft.lora.use_dora = true;
        for (const char* of_experts : {"DeepSeek-V3", "gpt-oss"})
          if (std::string_view(family) == of_experts) run.config.peft.lora.exclude_modules = {"*experts*"};
      }
      if (method == std::string_view("factors")) {
        run = rescaled(run);
        // Its matrices of keys and values are one, and all but one of its layers have experts.
        if (std::string_view(family) == "DeepSeek-V3") run.config.peft.ia3.target_modules = {"kv_b"};
      }
      // Its files hold queries and gates as one matrix, between which other pieces are in memory.
      if (std::string_view(family) == "Qwen3-Next")
        run.config.peft.lora.exclude_modules.emplace_back("q_proj");
      const RunResult one = run_layout(run, data_parallel(1));
      EXPECT_THAT(one.faults, IsEmpty());
      // A head that classifies is trained with the adapter.
      expect_base_untouched(weights_at_start(run), one, {"head.classes.weight"});
      EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
      run::Layout layout = data_parallel(2);
      layout.zero_stage = 3;
      EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
      EXPECT_THAT(differences(one, run_layout(run, tensor_parallel(2, true)), kRounding), IsEmpty());
    }
  }
}

// Layers of every kind: with experts, both branches side by side, normalised after the sum, of
// encoder-decoders.
TEST(Adapters, BottlenecksOfFamilies) {
  using model::BottleneckType;
  for (const char* family : {"DeepSeek-V3", "Qwen3-Next", "BERT", "ModernBERT", "T5"})
    for (const auto type :
         {BottleneckType::kSequential, BottleneckType::kDoubleSequential, BottleneckType::kParallel}) {
      SCOPED_TRACE(::testing::Message() << family << ": " << static_cast<int>(type));
      const TestRun run = with_bottlenecks(family_run(family), type);
      const RunResult one = run_layout(run, data_parallel(1));
      EXPECT_THAT(one.faults, IsEmpty());
      expect_base_untouched(weights_at_start(run), one);
      EXPECT_THAT(differences(one, run_layout(run, pipeline(2)), 0), IsEmpty());
      EXPECT_THAT(differences(one, run_layout(run, pipeline(2, "zb-h1")), 0), IsEmpty());
      run::Layout layout = data_parallel(2);
      layout.zero_stage = 3;
      EXPECT_THAT(differences(one, run_layout(run, layout), kRounding), IsEmpty());
      EXPECT_THAT(differences(one, run_layout(run, tensor_parallel(2, true)), kRounding), IsEmpty());
    }
}

TEST(Adapters, ExpertsOverRanks) {
  for (const char* family : {"DeepSeek-V3", "gpt-oss"}) {
    SCOPED_TRACE(family);
    const TestRun run = adapted(family_run(family), 0);
    const RunResult one = run_layout(run, data_parallel(1));
    EXPECT_THAT(differences(one, run_layout(run, layout_of(1, 1, 2, 2, 1)), kRounding), IsEmpty());
    // Every rank has a part of each expert, or of some; some experts as a whole.
    EXPECT_THAT(differences(one, run_layout(run, layout_of(2, 1, 1, 1, 1)), kRounding), IsEmpty());
    EXPECT_THAT(differences(one, run_layout(run, layout_of(2, 1, 2, 2, 1)), kRounding), IsEmpty());
    run::Layout whole = layout_of(2, 1, 1, 1, 1);
    whole.grid = grid::RankGrid({2, 1, 1, 1, 1}, {1, 2});
    EXPECT_THAT(differences(one, run_layout(run, whole), kRounding), IsEmpty());
  }
}

// The hash of the model's own weights is the same in every layout, and a changed bit changes it.
TEST(Adapters, HashOfTheModelDoesNotDependOnTheLayout) {
  const TestRun run = adapted(llama_like());
  const auto hash_in = [&](const run::Layout& layout, bool spoil = false) {
    std::mutex mutex;
    std::vector<std::uint64_t> hashes;
    TestRun own = run;
    own.steps = 0;
    own.before = [&](int number, run::TrainingRank& rank) {
      if (spoil && number == 0)
        for (std::size_t p = 0; p < rank.params().specs().size(); ++p)
          if (!rank.params().specs()[p].trained) {
            rank.parameters().master({static_cast<int>(p)}).as<double>()[0] += 1e-9;
            break;
          }
      const std::uint64_t hash = run::hash_of_frozen(rank);
      const std::lock_guard lock(mutex);
      hashes.push_back(hash);
    };
    run_layout(own, layout);
    EXPECT_THAT(hashes, ::testing::Each(hashes.front()));
    return hashes.front();
  };
  const std::uint64_t one = hash_in(data_parallel(1));
  run::Layout sharded = layout_of(2, 1, 1, 2, 2);
  sharded.zero_stage = 3;
  EXPECT_EQ(hash_in(layout_of(4, 1, 1, 1, 1)), one);
  EXPECT_EQ(hash_in(sharded), one);
  EXPECT_NE(hash_in(data_parallel(1), true), one);
}

}  // namespace
}  // namespace stoa::layouts
