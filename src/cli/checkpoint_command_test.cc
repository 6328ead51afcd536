// `stoa checkpoint` as a user calls it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/console.h"
#include "base/error.h"
#include "base/file.h"
#include "base/test_folder.h"
#include "ckpt/checkpoint_writer.h"
#include "ckpt/find_checkpoint.h"
#include "cli/command.h"
#include "cli/interrupt.h"

namespace stoa::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class OneWeight : public ckpt::Snapshot {
 public:
  std::vector<ckpt::TensorEntry> model_tensors() const override {
    return {{"w", ckpt::StorageType::kF32, {2, 2}, 0, 0}};
  }
  void write_model(ckpt::ShardedWriter& writer) override { writer.write("w", view()); }
  std::vector<TextFile> model_files() const override { return {{"config.json", "{}"}}; }
  std::vector<ckpt::TensorEntry> state_tensors() const override {
    return {{"master/w", ckpt::StorageType::kF32, {2, 2}, 0, 0}};
  }
  void write_state(ckpt::ShardedWriter& writer) override { writer.write("master/w", view()); }

 private:
  TensorView view() { return TensorView(values_.data(), DType::kF32, {2, 2}); }
  std::vector<float> values_{1, 2, 3, 4};
};

class CheckpointCommand : public ::testing::Test {
 protected:
  CheckpointCommand() {
    ckpt::CheckpointWriter writer(run() / "checkpoints", {});
    ckpt::TrainingState state;
    state.step = 100;
    writer.save(state, std::make_unique<OneWeight>());
    writer.wait();
  }
  fs::path run() const { return directory_.path() / "run"; }

  std::string call(std::string line) {
    CLI::App app("test");
    InterruptScope interrupt(console_);
    Context context{console_, interrupt};
    add_checkpoint_command(app, context);
    ::testing::internal::CaptureStdout();
    try {
      app.parse("checkpoint " + line);
    } catch (...) {
      printed_ = ::testing::internal::GetCapturedStdout();
      throw;
    }
    return ::testing::internal::GetCapturedStdout();
  }

  TestFolder directory_;
  Console console_{Console::Level::kQuiet};
  std::string printed_;
};

TEST_F(CheckpointCommand, InspectsAndVerifies) {
  const std::string text = call("inspect " + run().string());
  EXPECT_THAT(text, HasSubstr("step 100"));
  EXPECT_THAT(text, HasSubstr("master/w"));
  const auto json = nlohmann::json::parse(call("inspect --json " + run().string()));
  EXPECT_EQ(json["training"]["step"], 100);
  EXPECT_EQ(json["model"][0]["shape"], (std::vector<int>{2, 2}));
  EXPECT_EQ(json["files"].size(), 3u);
  EXPECT_THAT(call("verify " + run().string()), HasSubstr("all match their checksums"));

  const fs::path weights = run() / "checkpoints" / "step-0000100" / "model" / "model.safetensors";
  std::string bytes = read_text(weights);
  bytes.back() ^= 1;
  write_text(weights, bytes);
  EXPECT_THAT([&] { call("verify --json " + run().string()); },
              ThrowsMessage<DataError>(HasSubstr("model/model.safetensors")));
  EXPECT_EQ(nlohmann::json::parse(printed_)["ok"], false);
}

TEST_F(CheckpointCommand, ExportsABareModel) {
  const std::string out = (directory_.path() / "out").string();
  EXPECT_THAT(call("export " + run().string() + " --dtype bf16 --output " + out),
              HasSubstr("1 tensors as bf16"));
  EXPECT_THAT(call("inspect " + out), HasSubstr("BF16"));
  EXPECT_THAT(call("verify " + out), HasSubstr("match their checksums"));
  EXPECT_THROW(call("export " + run().string() + " --dtype int8 --output x"), CLI::ParseError);
  EXPECT_THROW(call("verify " + run().string() + "x"), IoError);
}

}  // namespace
}  // namespace stoa::cli
