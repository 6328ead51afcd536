// Decoders and encoder-decoders over ranks: the engine on rank 0, passes on all. Logits are those of one rank
// to rounding, and to the bit where sums keep their order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <map>
#include <thread>

#include "base/checksum.h"
#include "base/philox.h"
#include "base/test_folder.h"
#include "comm/threads/thread_world.h"
#include "device/host/host_device.h"
#include "infer/engine/engine.h"
#include "infer/engine/rank_team.h"
#include "infer/engine/text_losses.h"
#include "ops/cpu/cpu_backend.h"
#include "parallel/thread_contexts.h"
#include "run/export_gguf.h"

namespace stoa::layouts {
namespace {

using ::testing::HasSubstr;
namespace hf = model::huggingface;
using infer::TeamShape;

constexpr std::int64_t kIds = 61;  // no multiple of the ranks

const std::string kSizes =
    R"("vocab_size": 61, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
       "num_key_value_heads": 2, "max_position_embeddings": 128)";

std::string config_of(const std::string& type, const std::string& more = "") {
  return "{\"model_type\": \"" + type + "\", " + kSizes + (more.empty() ? "" : ", " + more) + "}";
}

// A Hugging Face directory with weights by name.
class ModelFolder {
 public:
  explicit ModelFolder(const std::string& config, float scale = 1) {
    const hf::ModelDescription description = hf::read_config(config);
    const model::ModelSpec spec = model::resolve_model(description.config);
    std::map<std::string, std::vector<float>> values;
    for (const auto& tensor : model::canonical_tensors(spec)) {
      const PhiloxKey key = philox_key(7, RandomPurpose::kTest, tensor.name);
      auto& of_tensor = values[tensor.name];
      for (std::int64_t i = 0; i < tensor.shape.elements(); ++i)
        of_tensor.push_back(
            (static_cast<float>(philox_word(key, static_cast<std::uint64_t>(i)) % 2001) / 4000.0f - 0.25f) *
            scale);
    }
    ckpt::ShardedWriter writer(folder_.path(), ckpt::kModelStem,
                               infer::model_entries(spec, *description.family, DType::kF32),
                               ckpt::WriteMode::kInPlace);
    infer::write_model(writer, spec, *description.family, DType::kF32, [&](const std::string& name) {
      auto& memory = values.at(name);
      return TensorView(memory.data(), DType::kF32, {std::ssize(memory)});
    });
    writer.commit();
    write_text(folder_.path() / "config.json", config);
  }
  const fs::path& path() const { return folder_.path(); }

 private:
  TestFolder folder_;
};

infer::Machine rank_machine() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HostDevice>();
  machine.backend =
      std::make_unique<ops::cpu::CpuBackend>(*machine.pool, ops::cpu::best_instruction_set(), true);
  machine.stream = machine.device->create_stream();
  return machine;
}

// Runs `command` next to rank 0 of a team of threads.
void with_team(
    const TeamShape& shape, const std::function<void(infer::RankTeam&)>& command,
    const std::function<infer::MakeMachine(int)>& machine_of = [](int) {
      return infer::MakeMachine(rank_machine);
    }) {
  comm::ThreadWorld world(shape.ranks());
  auto contexts = parallel::make_contexts(world, shape.grid());
  infer::RankTeam team(shape);
  world.run([&](int rank) {
    infer::Machine messages = rank_machine();
    const infer::TeamSeat seat{
        std::make_shared<const parallel::ParallelContext>(
            std::move(contexts[static_cast<std::size_t>(rank)])),
        messages,
        machine_of(rank),
        [&](const std::string& text, const std::function<void()>& body) { world.apart(rank, text, body); },
        fmt::format("rank {}", rank),
        true};
    if (rank > 0) return (void)infer::follow(seat, shape);
    std::exception_ptr error;
    std::thread own([&] {
      try {
        command(team);
      } catch (...) {
        error = std::current_exception();
      }
      team.end();
    });
    try {
      team.lead(seat);
    } catch (...) {
      own.join();
      throw;
    }
    own.join();
    if (error) std::rethrow_exception(error);
  });
}

// Keeps the logits of every token that a pass gives.
class KeptLogits final : public infer::PassModel {
 public:
  explicit KeptLogits(infer::PassModel& model) : model_(model) {}
  const infer::PassLimits& limits() const override { return model_.limits(); }
  std::span<const float> run(const infer::PassPlan& plan) override {
    const auto logits = model_.run(plan);
    std::size_t row = 0;
    for (const infer::PassSegment& s : plan.segments)
      for (std::int64_t i = std::ssize(s.tokens) - s.scored; i < std::ssize(s.tokens); ++i, ++row) {
        const auto values = logits.subspan(row * kIds, kIds);
        rows[{s.sequence, s.begin + i}] = {values.begin(), values.end()};
      }
    return logits;
  }
  void share_out(std::int64_t n, const std::function<void(std::int64_t)>& body) override {
    model_.share_out(n, body);
  }
  std::map<std::pair<infer::SequenceId, std::int64_t>, std::vector<float>> rows;

 private:
  infer::PassModel& model_;
};

struct EngineAnswers {
  std::vector<float> logits;  // of all tokens, in the order of texts and positions
  std::vector<float> losses;

  std::uint64_t hash() const {
    return checksum({reinterpret_cast<const char*>(logits.data()), logits.size() * sizeof(float)});
  }
};

const infer::EngineUse kUse{.context = 96,
                            .sequences = 6,
                            .pass_tokens = 40,
                            .scored = 64,
                            .tokenizer = false,
                            .losses = true,
                            .pairs = true,
                            .source_tokens = 60};

EngineAnswers answers_of(infer::PassModel& passes, int adapters = 0) {
  KeptLogits kept(passes);
  infer::Engine engine(kept);
  const bool sources = passes.limits().reads_sources();
  for (std::size_t i = 0; i < 6; ++i) {
    infer::Request request;
    for (std::size_t t = 0; t < 5 + i * 9; ++t)
      request.prompt.push_back(static_cast<std::int32_t>((t < 17 ? t * 5 : t * i + 3) % kIds));
    request.max_tokens = sources ? 20 : 12;
    request.sampling.greedy = true;
    if (!sources) request.prompt_logprobs = 0;
    request.adapter = static_cast<int>(i) % (adapters + 1);
    request.choices = i == 2 ? 2 : 1;  // which share blocks
    engine.submit(request, [](const infer::Event&) { return true; });
  }
  while (engine.step()) continue;
  EngineAnswers out;
  for (const auto& [place, row] : kept.rows) out.logits.insert(out.logits.end(), row.begin(), row.end());
  std::vector<std::int32_t> text;
  for (std::int32_t i = 0; i < 70; ++i) text.push_back(i * i % static_cast<std::int32_t>(kIds));
  if (!sources) {
    out.losses = infer::text_losses(passes, text);
    return out;
  }
  // The second source is longer than a pass.
  const std::vector<infer::TokenPair> pairs{
      {{text.begin(), text.begin() + 20}, {text.begin() + 20, text.end()}},
      {{text.begin(), text.begin() + 55}, {text.begin() + 55, text.end()}}};
  for (const auto& losses : infer::pair_losses(passes, pairs))
    out.losses.insert(out.losses.end(), losses.begin(), losses.end());
  return out;
}

struct Weights {
  DType type = DType::kF32;
  infer::QuantisedWeights form = infer::QuantisedWeights::kDecoded;
};

EngineAnswers on_one_rank(const fs::path& path, const Weights& weights = {}) {
  infer::OpenModel model(path, weights.type, rank_machine, std::nullopt, weights.form);
  return answers_of(*infer::load_paged_decoder(model, kUse));
}

EngineAnswers on_ranks(const fs::path& path, const TeamShape& shape, const Weights& weights = {}) {
  EngineAnswers out;
  with_team(shape, [&](infer::RankTeam& team) {
    infer::OpenModel model(path, weights.type, rank_machine, std::nullopt, weights.form);
    out = answers_of(*team.load(model, kUse));
  });
  return out;
}

double largest_difference(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return INFINITY;
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  return most;
}

void expect_same(const std::string& config, const std::vector<TeamShape>& shapes) {
  const ModelFolder folder(config);
  for (const DType type : {DType::kF32, DType::kBF16}) {
    const EngineAnswers one = on_one_rank(folder.path(), {type});
    ASSERT_GT(one.logits.size(), 100u * kIds);
    for (TeamShape shape : shapes) {
      SCOPED_TRACE(fmt::format("{}, {}", shape.text(), name_of(type)));
      if (type == DType::kF32) {
        const EngineAnswers split = on_ranks(folder.path(), shape, {type});
        EXPECT_LT(largest_difference(one.logits, split.logits), 1e-6);
        EXPECT_LT(largest_difference(one.losses, split.losses), 1e-5);
        // What splits no sum changes no bit (a token has two experts here, whose order does not matter).
        EXPECT_EQ(one.hash() == split.hash(), shape.tensor == 1);
      }
      shape.exact_sum = true;
      const EngineAnswers exact = on_ranks(folder.path(), shape, {type});
      EXPECT_EQ(one.hash(), exact.hash());
      EXPECT_EQ(one.losses, exact.losses);
    }
  }
}

TEST(Inference, TensorParallelRanksAnswerAsOne) {
  expect_same(config_of("llama"), {{2, 1}, {4, 1}});  // with four ranks, two share a head of keys
}

TEST(Inference, BiasesNormsOfHeadsTiedWeightsAndCapsAreShared) {
  expect_same(config_of("qwen2", R"("tie_word_embeddings": true)"), {{2, 1}});
  expect_same(config_of("qwen3", R"("head_dim": 32)"), {{2, 1}});
  expect_same(config_of("gemma2", R"("head_dim": 32, "sliding_window": 9)"), {{2, 1}});
  expect_same(config_of("olmo2"), {{2, 1}});
}

TEST(Inference, ExpertsAreDistributed) {
  const std::string mixtral = config_of("mixtral", R"("num_local_experts": 4)");
  expect_same(mixtral, {{1, 2}, {2, 1}, {2, 2}, {1, 4}});
}

TEST(Inference, PositionsAndLatentsAreThoseOfOneRank) {
  const std::string names = R"("vocab_size": 61, "n_layer": 2, "n_head": 4)";
  expect_same("{\"model_type\": \"gpt2\", " + names + R"(, "n_embd": 64, "n_positions": 128})",
              {{2}, {1, 1, 2}});
  expect_same("{\"model_type\": \"bloom\", " + names + R"(, "hidden_size": 64, "seq_length": 128})", {{2}});
  // Tables that depend on the length of the text: one text at a time, whose keys are made again.
  expect_same(R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 64, "intermediate_size": 96,
                  "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 48,
                  "rope_scaling": {"rope_type": "dynamic", "factor": 4.0}})",
              {{2}, {1, 1, 2}});
  expect_same(config_of("deepseek_v3", R"("n_routed_experts": 8, "num_experts_per_tok": 2,
      "moe_intermediate_size": 8, "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1, "kv_lora_rank": 8,
      "qk_nope_head_dim": 6, "v_head_dim": 5, "q_lora_rank": 6, "qk_rope_head_dim": 4)"),
              {{2}, {2, 2}, {1, 1, 2}});
}

TEST(Inference, StatesOfLinearAttentionAreShared) {
  const std::string hybrid = config_of(
      "qwen3_next", R"("layer_types": ["linear_attention", "full_attention"], "linear_num_key_heads": 2,
      "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8, "linear_conv_kernel_dim": 4,
      "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "head_dim": 16,
      "shared_expert_intermediate_size": 16)");
  expect_same(hybrid, {{2}, {2, 2}, {1, 1, 2}});
  const ModelFolder folder(hybrid);
  EXPECT_THAT(
      [&] { on_ranks(folder.path(), {4}); },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr(
          "4 attention heads with 2 heads of keys (2 in layers of linear attention), a hidden size of")));
}

// A directory of PEFT with branches of the layers that are split by outputs and by inputs.
void write_lora(const fs::path& directory) {
  write_text(
      directory / "adapter_config.json",
      R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "o_proj", "down_proj"]})");
  std::vector<ckpt::TensorEntry> entries;
  for (const char* layer : {"0", "1"})
    for (const auto& [module, inputs] :
         {std::pair{"mlp.down_proj", 96}, {"self_attn.o_proj", 64}, {"self_attn.q_proj", 64}})
      for (const bool first : {true, false}) {
        ckpt::TensorEntry& entry = entries.emplace_back();
        entry.name = fmt::format("base_model.model.model.layers.{}.{}.lora_{}.weight", layer, module,
                                 first ? "A" : "B");
        entry.type = ckpt::StorageType::kF32;
        entry.shape = first ? std::vector<std::int64_t>{4, inputs} : std::vector<std::int64_t>{64, 4};
      }
  ckpt::ShardedWriter writer(directory, "adapter_model", entries, ckpt::WriteMode::kInPlace);
  for (const ckpt::TensorEntry& entry : entries) {
    std::vector<float> values;
    for (std::int64_t i = 0; i < entry.elements(); ++i)
      values.push_back(static_cast<float>(i * 5 % 11 - 5) * 0.02F);
    writer.write_bytes(entry.name, std::as_bytes(std::span(values)));
  }
  writer.commit();
}

TEST(Inference, AdaptersAreShared) {
  const ModelFolder folder(config_of("llama"));
  const TestFolder lora;
  write_lora(lora.path());
  const auto answer = [&](infer::OpenModel& model, infer::RankTeam* team) {
    std::vector<infer::AdapterFiles> files;
    if (!model.adapter_directory()) files.push_back(model.open_adapter(lora.path()));
    const auto passes = infer::load_passes(model, kUse, files, team);
    return answers_of(*passes, static_cast<int>(files.size()));
  };
  const EngineAnswers plain = on_one_rank(folder.path());
  // As the model's own, and as one that requests choose.
  for (const auto& own : {std::optional<fs::path>(lora.path()), std::optional<fs::path>()}) {
    const auto open = [&] { return infer::OpenModel(folder.path(), DType::kF32, rank_machine, own); };
    infer::OpenModel alone = open();
    const EngineAnswers one = answer(alone, nullptr);
    EXPECT_NE(one.hash(), plain.hash());
    for (const TeamShape& shape : {TeamShape{2}, TeamShape{2, 1, 1, true}, TeamShape{1, 1, 2}}) {
      SCOPED_TRACE(shape.text());
      EngineAnswers shared;
      with_team(shape, [&](infer::RankTeam& team) {
        infer::OpenModel model = open();
        shared = answer(model, &team);
      });
      EXPECT_LT(largest_difference(one.logits, shared.logits), 1e-6);
      EXPECT_EQ(one.hash() == shared.hash(), shape.exact_sum || shape.tensor == 1);
    }
  }
}

TEST(Inference, BiasesOfExpertsAndSinksAreShared) {
  expect_same(config_of("gpt_oss", R"("num_local_experts": 4, "num_experts_per_tok": 2, "head_dim": 16,
      "sliding_window": 8)"),
              {{2}, {1, 2}, {2, 2}});
}

// Matrices stay as the file stores them: rows are split freely, columns between blocks.
TEST(Inference, QuantisedFilesAreSharedAsTheyAreStored) {
  const std::string sizes =
      R"({"model_type": "llama", "vocab_size": 61, "hidden_size": 256, "intermediate_size": 1024,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128)";
  struct File {
    const char *format, *more;
    bool whole;  // whether two ranks cut no block
  };
  for (const File& file : {File{"q8_0", "}", true}, File{"q4_0", R"(, "tie_word_embeddings": true})", true},
                           File{"q6_k", "}", false}}) {
    SCOPED_TRACE(file.format);
    const ModelFolder folder(sizes + file.more, 0.2F);
    const TestFolder out;
    const fs::path path = out.path() / "model.gguf";
    (void)run::export_gguf(ckpt::find_checkpoint(folder.path()), file.format, path);
    const Weights stored{DType::kF32, infer::QuantisedWeights::kStored};
    const EngineAnswers one = on_one_rank(path, stored);
    for (const int ranks : {2, 4}) {
      EXPECT_LT(largest_difference(one.logits, on_ranks(path, {ranks}, stored).logits),
                file.whole ? 2e-3 : 2e-2);
      EXPECT_EQ(one.hash(), on_ranks(path, {ranks, 1, 1, true}, stored).hash());
    }
    EXPECT_EQ(one.hash(), on_ranks(path, {1, 1, 2}, stored).hash());
    const auto bytes = [&](const TeamShape& shape) {
      infer::OpenModel model(path, stored.type, rank_machine, std::nullopt, stored.form);
      const infer::RankTeam team(shape);
      return static_cast<double>(team.measure(model, team.options_of(model, kUse, {})));
    };
    // A rank's part is a half but for norms, tables and buffers, and blocks that two ranks would cut.
    const double all = bytes({1});
    EXPECT_LT(bytes({2}), 0.75 * all);
    EXPECT_LT(bytes({2, 1, 1, true}), 0.75 * all);
  }
}

// The matrices of experts, too: experts are distributed, rows of each split freely, columns between blocks.
TEST(Inference, QuantisedExpertsAreSharedAsTheyAreStored) {
  const std::string config =
      R"({"model_type": "mixtral", "vocab_size": 61, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128, "num_local_experts": 4})";
  const ModelFolder folder(config, 0.2F);
  const TestFolder out;
  const fs::path path = out.path() / "model.gguf";
  (void)run::export_gguf(ckpt::find_checkpoint(folder.path()), "q8_0", path);
  const Weights stored{DType::kF32, infer::QuantisedWeights::kStored},
      decoded{DType::kF32, infer::QuantisedWeights::kDecoded};
  const EngineAnswers one = on_one_rank(path, stored);
  EXPECT_LT(largest_difference(one.logits, on_one_rank(path, decoded).logits), 1e-2);
  EXPECT_NE(one.hash(), on_one_rank(path, decoded).hash());
  for (const TeamShape& shape : {TeamShape{2}, {1, 2}, {2, 2}, {1, 4}})
    EXPECT_LT(largest_difference(one.logits, on_ranks(path, shape, stored).logits), 2e-3) << shape.text();
  for (const TeamShape& shape : {TeamShape{1, 1, 2}, {2, 1, 1, true}, {1, 2, 1, true}})
    EXPECT_EQ(one.hash(), on_ranks(path, shape, stored).hash()) << shape.text();
  // 8.5 bits of each number, not 32: experts are most of the model.
  const auto bytes = [&](const Weights& weights) {
    infer::OpenModel model(path, weights.type, rank_machine, std::nullopt, weights.form);
    return static_cast<double>(
        model.measure<infer::PagedDecoder>(infer::RankTeam(TeamShape{1}).options_of(model, kUse, {})));
  };
  EXPECT_LT(bytes(stored), 0.45 * bytes(decoded));
}

TEST(Inference, StagesHaveConsecutiveLayers) {
  expect_same(config_of("llama"), {{1, 1, 2}, {2, 1, 2}});
  expect_same(config_of("qwen2", R"("tie_word_embeddings": true)"), {{1, 1, 2}});
  expect_same(config_of("mixtral", R"("num_local_experts": 4)"), {{1, 2, 2}});
}

std::string pairs_config(const std::string& type, const std::string& more) {
  return "{\"model_type\": \"" + type +
         R"(", "vocab_size": 61, "d_model": 64, "d_kv": 16, "d_ff": 96, "num_heads": 4,
            "relative_attention_num_buckets": 8, "relative_attention_max_distance": 20, )" +
         more + "}";
}

// Wherever the stages cut the two stacks: a stage of the encoder alone keeps no keys and values.
TEST(Inference, SourcesAndTargetsAreShared) {
  const std::string layers = R"("num_layers": 2, "num_decoder_layers": 2)";
  expect_same(pairs_config("t5", layers), {{2}, {4}, {1, 1, 2}, {1, 1, 3}, {1, 1, 4}, {2, 1, 2}});
  expect_same(
      pairs_config("mt5", R"("num_layers": 3, "num_decoder_layers": 2, "tie_word_embeddings": false)"),
      {{2}, {1, 1, 2}});
  expect_same(pairs_config("umt5", layers), {{2}, {1, 1, 2}});
  const ModelFolder folder(pairs_config("t5", layers));
  const EngineAnswers one = on_one_rank(folder.path());
  EXPECT_LT(largest_difference(one.logits, on_ranks(folder.path(), {3}).logits), 1e-6);
  infer::EngineUse small = kUse;
  small.cache_bytes = 100'000;
  const auto pool_of = [&](infer::RankTeam* team) {
    infer::OpenModel model(folder.path(), DType::kF32, rank_machine);
    return infer::load_passes(model, small, {}, team)->pool().bytes;
  };
  const std::size_t all = pool_of(nullptr);
  with_team({1, 1, 2}, [&](infer::RankTeam& team) { EXPECT_EQ(pool_of(&team), all); });
}

TEST(Inference, HeadsThatRanksDoNotDivideAreSharedUnevenly) {
  const ModelFolder folder(config_of("llama"));
  const EngineAnswers one = on_one_rank(folder.path());
  EXPECT_LT(largest_difference(one.logits, on_ranks(folder.path(), {3, 1}).logits), 1e-6);
  EXPECT_THAT(
      [&] {
        on_ranks(folder.path(), {3, 1, 1, true});
      },
      ::testing::ThrowsMessage<ConfigError>(HasSubstr("the nearest is --tp 2 or 4")));
}

TEST(Inference, WhatCannotBeSharedIsRefusedWithTheNearestNumbers) {
  const auto refused = [](const std::string& config, const TeamShape& shape, const char* words) {
    const ModelFolder folder(config);
    EXPECT_THAT([&] { on_ranks(folder.path(), shape); },
                ::testing::ThrowsMessage<ConfigError>(HasSubstr(words)));
  };
  refused(config_of("llama"), {5, 1}, "--tp 5: the model has 4 attention heads");
  refused(config_of("llama"), {5, 1}, "the nearest is --tp 4");
  refused(config_of("llama"), {1, 2}, "--ep 2 distributes experts, and the model has none");
  refused(config_of("mixtral", R"("num_local_experts": 4)"), {1, 3},
          "the model's 4 experts do not divide among 3 ranks: the nearest is 2 or 4");
}

TEST(Inference, AnErrorWhileAModelIsReadIsOfThatModelAlone) {
  const ModelFolder folder(config_of("llama"));
  const EngineAnswers one = on_one_rank(folder.path());
  std::atomic<int> made{0};
  with_team(
      {2, 1},
      [&](infer::RankTeam& team) {
        const auto load = [&] {
          infer::OpenModel model(folder.path(), DType::kF32, rank_machine);
          const auto passes = team.load(model, kUse);
          EXPECT_LT(largest_difference(one.logits, answers_of(*passes, 0).logits), 1e-6);
        };
        EXPECT_THAT(load, ::testing::ThrowsMessage<DataError>("rank 1: this machine is on fire"));
        load();
      },
      [&](int rank) -> infer::MakeMachine {
        if (rank == 0) return rank_machine;
        return [&]() -> infer::Machine {
          require<DeviceError>(made++ > 0, "this machine is on fire");
          return rank_machine();
        };
      });
}

TEST(Inference, AnErrorOfAPassEndsAllRanks) {
  const ModelFolder folder(config_of("llama"));
  std::string told;
  EXPECT_THROW(with_team({2, 1},
                         [&](infer::RankTeam& team) {
                           infer::OpenModel model(folder.path(), DType::kF32, rank_machine);
                           const auto passes = team.load(model, kUse);
                           try {
                             const std::int32_t token = 0;
                             infer::PassPlan plan;
                             plan.tokens = 2;
                             (void)passes->losses(plan, {&token, 1});
                           } catch (const std::exception& error) {
                             told = error.what();
                             throw;
                           }
                         }),
               Error);
  EXPECT_THAT(told, HasSubstr("1 labels of 2 tokens"));
}

}  // namespace
}  // namespace stoa::layouts
