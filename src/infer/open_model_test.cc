#include "infer/open_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/test_folder.h"
#include "ckpt/model_checksums.h"
#include "device/host/host_device.h"
#include "infer/encoder_rank.h"
#include "infer/engine/single_text.h"
#include "infer/engine/text_losses.h"
#include "ops/cpu/cpu_backend.h"

namespace stoa::infer {
namespace {

namespace hf = model::huggingface;
using ::testing::HasSubstr, testing::ThrowsMessage;

// A tiny llama of weights that are `value`, without a tokenizer.
class Llama {
 public:
  explicit Llama(float value = 0.25f) {
    const std::string config =
        R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "num_attention_heads": 4,
            "num_hidden_layers": 1, "intermediate_size": 8, "max_position_embeddings": 32})";
    const auto description = hf::read_config(config);
    const model::ModelSpec spec = model::resolve_model(description.config);
    const std::vector<float> values(1024, value);
    ckpt::ShardedWriter writer(path(), ckpt::kModelStem,
                               model_entries(spec, *description.family, DType::kF32),
                               ckpt::WriteMode::kInPlace);
    write_model(writer, spec, *description.family, DType::kF32, [&](const std::string&) {
      return TensorView(const_cast<float*>(values.data()), DType::kF32,
                        {static_cast<std::int64_t>(values.size())});
    });
    writer.commit();
    write_text(path() / "config.json", config);
  }
  const fs::path& path() const { return directory_.path(); }

 private:
  TestFolder directory_;
};

// Counts the machines that are asked for.
struct Machines {
  int made = 0;
  MakeMachine maker() {
    return [this] {
      ++made;
      Machine machine;
      machine.pool = std::make_unique<WorkerPool>(1);
      machine.device = std::make_unique<HostDevice>();
      machine.backend = std::make_unique<ops::cpu::CpuBackend>(*machine.pool);
      machine.stream = machine.device->create_stream();
      return machine;
    };
  }
};

TEST(OpenModel, SaysWhatItIsBeforeAMachineIsMade) {
  const Llama files;
  Machines machines;
  OpenModel model(files.path(), std::nullopt, machines.maker());
  EXPECT_EQ(model.kind(), model::ModelKind::kGpt);
  EXPECT_EQ(model.directory(), files.path());
  EXPECT_EQ(model.model().config.hidden_size, 16);
  EXPECT_EQ(model.precision().compute, DType::kF32) << "as stored";
  EXPECT_EQ(OpenModel(files.path(), DType::kBF16, machines.maker()).precision().compute, DType::kBF16);
  EXPECT_THAT([&] { load_encoder(model, {}); },
              ThrowsMessage<ConfigError>(HasSubstr("model_type llama is not an encoder")));
  EXPECT_THAT([&] { load_for_pairs(model, {}, {}); },
              ThrowsMessage<ConfigError>(HasSubstr("model_type llama is not an encoder-decoder")));
  EXPECT_THROW(load_paged_decoder(model, {}), IoError) << "there is no tokenizer";
  EXPECT_EQ(machines.made, 0);
}

TEST(OpenModel, GivesItsWeightsOnceToARankThatItOutlives) {
  const Llama files;
  Machines machines;
  OpenModel model(files.path(), std::nullopt, machines.maker());
  const EngineUse use{.sequences = 1, .pass_tokens = 4, .tokenizer = false, .losses = true};
  const auto rank = load_paged_decoder(model, use);
  EXPECT_EQ(machines.made, 1);
  EXPECT_EQ(SingleText(*rank).feed(std::vector<std::int32_t>{1, 2, 3}).size(), 32u);
  // Weights that are all equal make all tokens equally likely.
  for (const float loss : text_losses(*rank, std::vector<std::int32_t>{1, 2, 3, 4}))
    EXPECT_NEAR(loss, std::log(32.0f), 1e-5f);
  EXPECT_THROW(load_paged_decoder(model, use), InternalError);
}

TEST(OpenModel, IsHeldAgainstItsChecksums) {
  const Llama files, others(0.5f);
  Machines machines;
  ckpt::write_model_checksums(files.path());
  EXPECT_NO_THROW(OpenModel(files.path(), std::nullopt, machines.maker()));
  fs::copy_file(others.path() / "model.safetensors", files.path() / "model.safetensors",
                fs::copy_options::overwrite_existing);
  EXPECT_THROW(OpenModel(files.path(), std::nullopt, machines.maker()), DataError);
  EXPECT_EQ(machines.made, 0);
}

}  // namespace
}  // namespace stoa::infer
