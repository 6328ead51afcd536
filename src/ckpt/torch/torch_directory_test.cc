#include "ckpt/torch/torch_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "ckpt/tensor_directory.h"

namespace stoa::ckpt::torch {
namespace {

using ::testing::HasSubstr, testing::ThrowsMessage;

fs::path llama(const std::string& name) { return test::source_dir() / "tests/fixtures/torch/llama" / name; }
constexpr const char* kShards[] = {"pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"};

class TorchWeights : public ::testing::Test {
 protected:
  void put(const std::string& name, const std::string& as = "") {
    fs::copy_file(llama(name), directory_.path() / (as.empty() ? name : as),
                  fs::copy_options::overwrite_existing);
  }
  void put_shards() {
    for (const char* name : kShards) put(name);
    put("pytorch_model.bin.index.json");
  }
  void expect_as_safetensors(bool head) const {
    const TensorDirectory twin(llama(""));
    const TorchDirectory found(directory_.path());
    EXPECT_EQ(found.entries().size(), twin.entries().size() + (head ? 1 : 0));
    for (const TensorEntry* entry : twin.entries()) {
      ASSERT_NE(found.find_entry(entry->name), nullptr) << entry->name;
      EXPECT_TRUE(same_elements(found, *found.find_entry(entry->name), twin, *entry)) << entry->name;
    }
    if (head) {
      EXPECT_TRUE(same_elements(found, found.entry("lm_head.weight"), found,
                                found.entry("model.embed_tokens.weight")));
    }
    EXPECT_FALSE(same_elements(found, found.entry("model.layers.0.mlp.up_proj.weight"), found,
                               found.entry("model.layers.1.mlp.up_proj.weight")));
  }
  void expect_refused(const std::string& message) const {
    EXPECT_THAT([&] { TorchDirectory found(directory_.path()); }, ThrowsMessage<Error>(HasSubstr(message)));
  }

  TestFolder directory_;
};

TEST_F(TorchWeights, AreThoseOfTheSafetensorsBesideThem) {
  EXPECT_FALSE(TorchDirectory::exists(directory_.path()));
  put("pytorch_model.bin");
  EXPECT_TRUE(TorchDirectory::exists(directory_.path()));
  expect_as_safetensors(true);
  EXPECT_TRUE(TorchDirectory(directory_.path()).check_sums());
}

// The only .pt or .pth file next to config.json, and a file by itself; a program may keep more than the model
// in it.
TEST_F(TorchWeights, OfAStateDict) {
  put("pytorch_model.bin", "weights.pt");
  EXPECT_FALSE(TorchDirectory::exists(directory_.path()));
  put("config.json");
  EXPECT_TRUE(TorchDirectory::exists(directory_.path()));
  expect_as_safetensors(true);
  put("trained.pt", "optimizer.pt");  // the Trainer's
  expect_as_safetensors(true);
  fs::remove(directory_ / "weights.pt");
  put("trained.pt");
  expect_as_safetensors(true);
  EXPECT_EQ(TorchDirectory(directory_ / "trained.pt").entries().size(),
            TorchDirectory(directory_.path()).entries().size());
  put("trained.pt", "other.pth");
  EXPECT_FALSE(TorchDirectory::exists(directory_.path()));
}

TEST_F(TorchWeights, OfTheFormatBefore1_6) {
  put("before_1.6.bin", "pytorch_model.bin");
  expect_as_safetensors(true);
  EXPECT_FALSE(TorchDirectory(directory_.path()).check_sums());
}

TEST_F(TorchWeights, InShards) {
  put_shards();
  expect_as_safetensors(false);
  EXPECT_EQ(TorchDirectory(directory_.path()).file_count(), 2u);
}

TEST_F(TorchWeights, GiveWayToSafetensors) {
  EXPECT_FALSE(holds_weights(directory_.path()));
  EXPECT_THROW(open_weights(directory_.path()), IoError);
  put("pytorch_model.bin");
  EXPECT_TRUE(holds_weights(directory_.path()));
  EXPECT_NE(open_weights(directory_.path())->find_entry("lm_head.weight"), nullptr);
  put("model.safetensors");
  EXPECT_EQ(open_weights(directory_.path())->find_entry("lm_head.weight"), nullptr);
}

TEST_F(TorchWeights, RefuseWhatTheirIndexDoesNotFit) {
  put_shards();
  fs::remove(directory_.path() / kShards[1]);
  expect_refused(kShards[1]);
  put(kShards[0], kShards[1]);
  expect_refused("as it or another shard did before");
  put("before_1.6.bin", kShards[1]);
  fs::remove(directory_.path() / kShards[0]);
  write_text(directory_.path() / "pytorch_model.bin.index.json",
             fmt::format(R"({{"weight_map": {{"model.norm.weight": "{0}", "absent": "{0}"}}}})", kShards[1]));
  expect_refused("absent (in pytorch_model-00002");
  write_text(directory_.path() / "pytorch_model.bin.index.json", R"({"weight_map": {"a": "../x.bin"}})");
  expect_refused("only files of its own directory");
}

TEST_F(TorchWeights, RefuseWhatIsNoDictOfTensors) {
  fs::copy_file(llama("../tensors.pt"), directory_.path() / "pytorch_model.bin");
  expect_refused("under the string 'tensors', and a model's weights are a dict of tensors by name");
}

}  // namespace
}  // namespace stoa::ckpt::torch
