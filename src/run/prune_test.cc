// Parts of a model that do nothing are found and left out: what is left says the same.
#include "run/prune.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/philox.h"
#include "base/test_folder.h"
#include "device/host/host_device.h"
#include "infer/engine/text_losses.h"
#include "infer/model_files.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::run {
namespace {

namespace hf = model::huggingface;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const std::string kWhole =
    R"({"model_type": "llama", "vocab_size": 40, "hidden_size": 16, "intermediate_size": 12, "num_hidden_layers": 4,
        "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64})";
constexpr std::int64_t kWholeWidth = 16, kWholeNeurons = 12, kGroupKeys = 4;

infer::Machine pruning_machine() {
  infer::Machine machine;
  machine.pool = std::make_unique<WorkerPool>(1);
  machine.device = std::make_unique<HostDevice>();
  machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
  machine.stream = machine.device->create_stream();
  return machine;
}

// Layer 2 adds nothing to the stream; in the others neurons 1 and 5, moved by the layer's number, and group 0
// or 1 of the heads say nothing.
void silence(const std::string& name, std::vector<float>& values) {
  for (std::int64_t layer = 0; layer < 4; ++layer) {
    const auto is = [&](const char* end) { return name == fmt::format("layers.{}.{}", layer, end); };
    const auto zero = [&](std::int64_t begin, std::int64_t count) {
      std::fill_n(values.begin() + begin, count, 0.0f);
    };
    if (layer == 2 && (is("mlp.down.weight") || is("attention.out.weight"))) zero(0, std::ssize(values));
    for (const std::int64_t neuron : {1 + layer, 5 + layer})
      if (is("mlp.up.weight")) zero(neuron * kWholeWidth, kWholeWidth);
    if (is("attention.v.weight")) zero(layer % 2 * kGroupKeys * kWholeWidth, kGroupKeys * kWholeWidth);
  }
}

void write_half_silent(const fs::path& directory) {
  fs::create_directories(directory);
  const hf::ModelDescription description = hf::read_config(kWhole);
  const model::ModelSpec spec = model::resolve_model(description.config);
  std::map<std::string, std::vector<float>> values;
  for (const auto& tensor : model::canonical_tensors(spec)) {
    auto& own = values[tensor.name];
    const PhiloxKey key = philox_key(7, RandomPurpose::kTest, tensor.name);
    for (std::int64_t i = 0; i < tensor.shape.elements(); ++i)
      own.push_back(static_cast<float>(philox_word(key, static_cast<std::uint64_t>(i)) % 2001) / 2000.0f -
                    0.5f);
    silence(tensor.name, own);
  }
  ckpt::ShardedWriter writer(directory, ckpt::kModelStem,
                             infer::model_entries(spec, *description.family, DType::kF32),
                             ckpt::WriteMode::kInPlace);
  infer::write_model(writer, spec, *description.family, DType::kF32, [&](const std::string& name) {
    auto& memory = values.at(name);
    return TensorView(memory.data(), DType::kF32, {std::ssize(memory)});
  });
  writer.commit();
  write_text(directory / "config.json", kWhole);
}

std::vector<std::int32_t> calibration_text() {
  std::vector<std::int32_t> ids(50);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * i % 40);
  return ids;
}

std::vector<float> losses_of(const fs::path& directory) {
  infer::OpenModel model(directory, DType::kF32, pruning_machine);
  const auto rank = infer::load_for_losses(model, {.tokenizer = false});
  return infer::text_losses(*rank, calibration_text());
}

class Pruning : public ::testing::Test {
 protected:
  void SetUp() override { write_half_silent(whole()); }
  fs::path whole() const { return directory_.path() / "whole"; }
  fs::path pruned() const { return directory_.path() / "pruned"; }

  KeptParts prune(const PrunedSizes& sizes) {
    const infer::ModelFiles files(whole());
    const Calibration importance = measure_importance(
        [&](infer::MakeMachine make) { return infer::OpenModel(whole(), DType::kF32, make); },
        pruning_machine, [](infer::OpenModel&) { return calibration_text(); });
    KeptParts parts = choose_parts(files.model(), sizes, importance);
    write_pruned(files, parts, DType::kF32, pruned(), nullptr);
    return parts;
  }
  void expect_same_losses() const {
    const auto before = losses_of(whole()), after = losses_of(pruned());
    ASSERT_EQ(before.size(), after.size());
    for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i], before[i], 2e-5);
  }

  TestFolder directory_;
};

TEST_F(Pruning, LeavesOutWhatSaysNothing) {
  PrunedSizes sizes;
  sizes.layers = 3;
  sizes.ffn = 10;
  sizes.heads = 2;
  const KeptParts parts = prune(sizes);
  EXPECT_THAT(parts.layers, ElementsAre(0, 1, 3));
  EXPECT_THAT(parts.ffn[1], ElementsAre(0, 1, 3, 4, 5, 7, 8, 9, 10, 11));
  EXPECT_THAT(parts.groups, ElementsAre(ElementsAre(1), ElementsAre(0), ElementsAre(0)));
  expect_same_losses();
  const model::ModelConfig config = infer::ModelFiles(pruned()).model().config;
  EXPECT_EQ(config.num_layers, 3);
  EXPECT_EQ(config.ffn_size(), 10);
  EXPECT_EQ(config.num_attention_heads, 2);
  EXPECT_EQ(config.query_groups(), 1);
  EXPECT_EQ(config.head_size(), 4);
}

TEST_F(Pruning, AllPartsAreTheModel) {
  PrunedSizes sizes;
  sizes.layers = 4;
  sizes.ffn = kWholeNeurons;
  sizes.heads = 4;
  sizes.hidden = kWholeWidth;
  prune(sizes);
  EXPECT_EQ(losses_of(whole()), losses_of(pruned()));
}

TEST_F(Pruning, ChannelsOfTheStreamAndNamedLayers) {
  PrunedSizes sizes;
  sizes.hidden = 12;
  sizes.kept_layers = {0, 3};
  EXPECT_THAT(prune(sizes).layers, ElementsAre(0, 3));
  const model::ModelConfig config = infer::ModelFiles(pruned()).model().config;
  EXPECT_EQ(config.hidden_size, 12);
  EXPECT_EQ(config.num_layers, 2);
  for (const float loss : losses_of(pruned())) EXPECT_TRUE(std::isfinite(loss));
}

TEST_F(Pruning, RefusesSizesThatTheModelDoesNotHave) {
  const auto refusal = [&](const PrunedSizes& sizes) { prune(sizes); };
  PrunedSizes layers, heads, named;
  layers.layers = 5;
  EXPECT_THAT([&] { refusal(layers); }, ThrowsMessage<ConfigError>(HasSubstr("--layers 5: the model has 4")));
  heads.heads = 3;
  EXPECT_THAT([&] { refusal(heads); },
              ThrowsMessage<ConfigError>(HasSubstr("2 heads share keys and values")));
  named.kept_layers = {2, 1};
  EXPECT_THAT([&] { refusal(named); }, ThrowsMessage<ConfigError>(HasSubstr("--keep-layers names layer 1")));
  EXPECT_FALSE(fs::exists(pruned()));
}

}  // namespace
}  // namespace stoa::run
