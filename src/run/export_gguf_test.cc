// Models of every architecture as GGUF files and back: the same function, the same weights.
#include "run/export_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/philox.h"
#include "base/test_folder.h"
#include "device/host/host_device.h"
#include "formats/gguf/gguf_file.h"
#include "infer/engine/paged_decoder.h"
#include "infer/engine/single_text.h"
#include "infer/model_files.h"
#include "model/gguf/architecture.h"
#include "model/same_function.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::run {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
namespace hf = model::huggingface;

std::vector<float> random_weights(const std::string& name, std::int64_t count) {
  const PhiloxKey key = philox_key(7, RandomPurpose::kTest, name);
  std::vector<float> out(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<float>(philox_word(key, i) % 2001) / 1000.0f - 1.0f;
  return out;
}

// A Hugging Face directory with weights by name, without a tokenizer.
void write_directory(const fs::path& directory, const std::string& config, float scale = 1) {
  fs::create_directories(directory);
  const hf::ModelDescription description = hf::read_config(config);
  const model::ModelSpec spec = model::resolve_model(description.config);
  std::map<std::string, std::vector<float>> values;
  for (const auto& tensor : model::canonical_tensors(spec))
    for (float& x :
         values.emplace(tensor.name, random_weights(tensor.name, tensor.shape.elements())).first->second)
      x *= tensor.shape.rank() > 1 ? scale : 1;
  ckpt::ShardedWriter writer(directory, ckpt::kModelStem,
                             infer::model_entries(spec, *description.family, DType::kF32),
                             ckpt::WriteMode::kInPlace);
  infer::write_model(writer, spec, *description.family, DType::kF32, [&](const std::string& name) {
    auto& memory = values.at(name);
    return TensorView(memory.data(), DType::kF32, {static_cast<std::int64_t>(memory.size())});
  });
  writer.commit();
  write_text(directory / "config.json", config);
}

const std::string kSizes =
    R"("vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
       "num_key_value_heads": 2, "max_position_embeddings": 128)";

struct Case {
  const char* name;
  std::string config, architecture;
};

std::vector<Case> cases() {
  const auto of = [](const std::string& type, const std::string& more, const std::string& sizes = kSizes) {
    return "{\"model_type\": \"" + type + "\", " + sizes + (more.empty() ? "" : ", " + more) + "}";
  };
  return {
      {"llama", of("llama", ""), "llama"},
      {"llama_tied", of("llama", R"("tie_word_embeddings": true, "rope_theta": 1e5, "rms_norm_eps": 1e-5)"),
       "llama"},
      {"llama3", of("llama", R"("rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
                               "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}, "rope_theta": 5e5)"),
       "llama"},
      {"yarn",
       of("llama",
          R"("rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0, "beta_slow": 2.0,
                             "original_max_position_embeddings": 32})"),
       "llama"},
      {"mistral", of("mistral", R"("sliding_window": null, "head_dim": 32)"), "llama"},
      {"mixtral", of("mixtral", R"("num_local_experts": 4)"), "llama"},
      {"qwen2", of("qwen2", ""), "qwen2"},
      {"qwen3", of("qwen3", R"("head_dim": 32)"), "qwen3"},
      {"qwen3_moe",
       of("qwen3_moe", R"("num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                                       "norm_topk_prob": true, "head_dim": 32)"),
       "qwen3moe"},
      {"gemma", of("gemma", R"("head_dim": 32)"), "gemma"},
      {"gemma2", of("gemma2", R"("head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 16)"),
       "gemma2"},
      {"gemma3",
       of("gemma3_text", R"("head_dim": 32, "query_pre_attn_scalar": 32, "sliding_window": 16,
                                      "num_hidden_layers": 7)",
          R"("vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4,
                       "num_key_value_heads": 2, "max_position_embeddings": 128)"),
       "gemma3"},
      {"phi3", of("phi3", R"("sliding_window": 64)"), "phi3"},
      {"phi",
       of("phi", R"("partial_rotary_factor": 0.5, "num_key_value_heads": 4)",
          R"("vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                    "num_attention_heads": 4, "max_position_embeddings": 128)"),
       "phi2"},
      {"gpt2",
       R"({"model_type": "gpt2", "vocab_size": 40, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128})",
       "gpt2"},
      {"gpt_neox",
       of("gpt_neox", R"("rotary_pct": 0.25)",
          R"("vocab_size": 40, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
                         "num_attention_heads": 4, "max_position_embeddings": 128)"),
       "gptneox"},
      {"starcoder2", of("starcoder2", R"("sliding_window": null)"), "starcoder2"},
      {"olmo2", of("olmo2", ""), "olmo2"},
      {"granite",
       of("granite", R"("embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 8.0,
                                   "attention_multiplier": 0.0625)"),
       "granite"},
      {"stablelm", of("stablelm", R"("partial_rotary_factor": 0.5)"), "stablelm"},
  };
}

TEST(ExportGguf, EveryArchitectureReadsBackAsItWas) {
  for (const Case& each : cases()) {
    SCOPED_TRACE(each.name);
    const TestFolder directory;
    const fs::path from = directory.path() / "model", to = directory.path() / "model.gguf";
    try {
      write_directory(from, each.config);
      const GgufExport out = export_gguf(ckpt::find_checkpoint(from), "f32", to);
      EXPECT_EQ(out.architecture, each.architecture);
      EXPECT_THAT(out.notes, ::testing::Contains(HasSubstr("no tokenizer")));
      // A window that llama.cpp does not compute is named.
      const bool window = infer::ModelFiles(from).model().config.window_size && out.architecture == "phi3";
      EXPECT_EQ(out.notes.size(), window ? 2U : 1U);
      const infer::ModelFiles before(from), after(ckpt::find_checkpoint(to).model);
      const auto differences =
          model::function_differences(after.model().config, before.model().config, model::Purpose::kResume);
      for (const auto& d : differences) ADD_FAILURE() << d.path << ": " << d.from << " instead of " << d.to;
      for (const auto& tensor : model::canonical_tensors(before.model()))
        EXPECT_EQ(after.canonical(tensor.name, DType::kF32), before.canonical(tensor.name, DType::kF32))
            << tensor.name;
    } catch (const Error& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

// What llama.cpp's converter writes of models that Stoa's exporter says otherwise.
TEST(ExportGguf, KeysOfOtherConvertersAreRead) {
  const auto read = [](const char* name, const nlohmann::json& more) {
    nlohmann::json keys =
        R"({"context_length": 128, "embedding_length": 64, "feed_forward_length": 96, "block_count": 2,
                              "attention.head_count": 4, "attention.head_count_kv": 2, "vocab_size": 40,
                              "attention.layer_norm_rms_epsilon": 1e-5, "holds.output": true})"_json;
    keys.update(more);
    return model::gguf::read_architecture(model::gguf::architecture(name), keys, "a.gguf");
  };
  EXPECT_EQ(read("phi3", {{"attention.sliding_window", 0}}).window_size, std::nullopt);
  EXPECT_EQ(read("phi3", {{"attention.sliding_window", 64}}).window_size, 64);
  nlohmann::json yarn{{"rope.scaling.type", "yarn"},          {"rope.scaling.factor", 4.0},
                      {"rope.scaling.yarn_beta_fast", 16.0},  {"rope.scaling.yarn_beta_slow", 2.0},
                      {"rope.scaling.yarn_ext_factor", 1.0},  {"rope.scaling.attn_factor", 1.0},
                      {"rope.scaling.yarn_attn_factor", 1.0}, {"rope.scaling.original_context_length", 32}};
  const model::RopeScalingConfig scaling = read("llama", yarn).rope_scaling;
  EXPECT_EQ(scaling.beta_fast, 16);
  EXPECT_EQ(scaling.beta_slow, 2);
  EXPECT_EQ(scaling.attention_factor, std::nullopt);
  yarn["rope.scaling.attn_factor"] = 0.5;
  EXPECT_THAT([&] { read("llama", yarn); },
              ThrowsMessage<ConfigError>(
                  HasSubstr("rope.scaling.attn_factor other than 1 is not supported with yarn")));
}

std::string bytes_of_file(const fs::path& path) { return read_text(path); }

TEST(ExportGguf, AGgufFileIsWrittenAgainByteForByte) {
  const TestFolder directory;
  write_directory(directory.path() / "model", cases()[0].config);
  for (const char* format : {"q4_0", "q8_0", "bf16", "q4_k_m"}) {
    const fs::path first = directory.path() / (std::string(format) + ".gguf"),
                   again = directory.path() / (std::string(format) + "2.gguf");
    export_gguf(ckpt::find_checkpoint(directory.path() / "model"), format, first);
    export_gguf(ckpt::find_checkpoint(first), "", again);
    EXPECT_TRUE(bytes_of_file(first) == bytes_of_file(again)) << format;
  }
}

// Rows of 64 are no whole blocks of 256; norms stay exact; the output matrix has more bits.
TEST(ExportGguf, MixturesChooseFormatsByTensor) {
  const TestFolder directory;
  write_directory(directory.path() / "model", cases()[0].config);
  const auto format = [&](const char* mixture, const char* tensor) {
    const fs::path path = directory.path() / (std::string(mixture) + ".gguf");
    if (!fs::exists(path)) export_gguf(ckpt::find_checkpoint(directory.path() / "model"), mixture, path);
    return std::string(gguf::File(path).find(tensor)->format->name);
  };
  EXPECT_EQ(format("q4_0", "blk.0.attn_q.weight"), "Q4_0");
  EXPECT_EQ(format("q4_0", "output.weight"), "Q8_0");
  EXPECT_EQ(format("q4_0", "blk.0.attn_norm.weight"), "F32");
  EXPECT_EQ(format("q4_k_m", "blk.0.attn_q.weight"), "Q5_0");
  EXPECT_EQ(format("q4_k_m", "blk.1.ffn_down.weight"), "Q8_0");
  EXPECT_EQ(format("q5_k_s", "blk.1.ffn_up.weight"), "Q5_1");
}

TEST(ExportGguf, RefusesWhatGgufCannotSay) {
  const TestFolder directory;
  write_directory(directory.path() / "a",
                  R"({"model_type": "llama", "attention_bias": true, "mlp_bias": false, )" + kSizes +
                      R"(, "rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})");
  EXPECT_THAT(
      [&] { export_gguf(ckpt::find_checkpoint(directory.path() / "a"), "f16", directory.path() / "a.gguf"); },
      ThrowsMessage<ConfigError>(HasSubstr("no architecture of GGUF files can say this model")));
  EXPECT_FALSE(fs::exists(directory.path() / "a.gguf"));
  EXPECT_THAT(
      [&] { export_gguf(ckpt::find_checkpoint(directory.path() / "a"), "q4", directory.path() / "a.gguf"); },
      ThrowsMessage<ConfigError>(HasSubstr("is no format of GGUF files")));
}

infer::Machine gguf_machine() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(2);
  machine.device = std::make_unique<HostDevice>();
  machine.backend =
      std::make_unique<ops::cpu::CpuBackend>(*machine.pool, ops::cpu::best_instruction_set(), true);
  machine.stream = machine.device->create_stream();
  return machine;
}

// What a use of a file gives: logarithms of the probabilities behind every token, and bytes of its weights.
struct Use {
  std::vector<std::vector<double>> logs;
  std::size_t weight_bytes;
};
Use use_of(const fs::path& file, infer::QuantisedWeights weights, std::int64_t vocabulary) {
  infer::OpenModel model(file, DType::kF32, gguf_machine, std::nullopt, weights);
  const auto decoder =
      infer::load_paged_decoder(model, {.context = 64, .sequences = 1, .pass_tokens = 8, .tokenizer = false});
  Use out{{}, decoder->chunk().arena().declared()[static_cast<std::size_t>(MemoryCategory::kWeights)]};
  infer::SingleText text(*decoder);
  for (std::int32_t i = 0; i < 50; ++i) {
    const std::int32_t token = i * i % 37;
    const auto logits = text.feed({&token, 1}).first(static_cast<std::size_t>(vocabulary));
    double sum = 0;
    for (const float x : logits) sum += std::exp(static_cast<double>(x));
    std::vector<double>& logs = out.logs.emplace_back();
    for (const float x : logits) logs.push_back(static_cast<double>(x) - std::log(sum));
  }
  return out;
}

double mean_divergence(const Use& original, const Use& other) {
  double sum = 0;
  for (std::size_t t = 0; t < original.logs.size(); ++t)
    for (std::size_t i = 0; i < original.logs[t].size(); ++i)
      sum += std::exp(original.logs[t][i]) * (original.logs[t][i] - other.logs[t][i]);
  return sum / static_cast<double>(original.logs.size());
}

// Products with a file's weights as they are differ from those with its decoded ones by inputs of
// 12 bits alone; and the weights are as large as in the file.
TEST(ExportGguf, WeightsAreUsedAsTheFileHoldsThem) {
  const std::string wide = R"("vocab_size": 40, "hidden_size": 256, "intermediate_size": 512,
       "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 128)";
  std::vector<Case> models = cases();
  models.push_back({"wide", "{\"model_type\": \"llama\", " + wide + "}", "llama"});
  for (const Case& each : models)
    for (const std::string format : {"q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q4_k_m", "q5_k_m", "q6_k"}) {
      // Every architecture in three formats; the others need rows of 256, or differ no further.
      if (format != "q8_0" && format != "q4_1" && format != "q5_0" && std::string_view(each.name) != "wide")
        continue;
      SCOPED_TRACE(fmt::format("{} {}", each.name, format));
      const TestFolder directory;
      const fs::path from = directory.path() / "model", to = directory.path() / "model.gguf";
      write_directory(from, each.config, 0.2F);
      export_gguf(ckpt::find_checkpoint(from), format, to);
      const Use decoded = use_of(to, infer::QuantisedWeights::kDecoded, 40),
                stored = use_of(to, infer::QuantisedWeights::kStored, 40);
      const double divergence = mean_divergence(decoded, stored);
      EXPECT_LT(divergence, 1e-5);
      EXPECT_NE(divergence, 0);
      EXPECT_LT(stored.weight_bytes, decoded.weight_bytes);
      if (std::string_view(each.name) != "wide") continue;
      EXPECT_LT(static_cast<double>(stored.weight_bytes),
                1.02 * static_cast<double>(fs::file_size(to)) + 4e4);
    }
}

}  // namespace
}  // namespace stoa::run
