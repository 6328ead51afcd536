#include "ckpt/torch/distributed_checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"

namespace stoa::ckpt::torch {
namespace {

using ::testing::HasSubstr, testing::ThrowsMessage;

fs::path split_over_ranks(const std::string& name) { return test::source_dir() / "tests/fixtures" / name; }

TEST(DistributedCheckpoint, PutsThePartsOfRanksTogether) {
  const DistributedCheckpoint found(split_over_ranks("torchtitan"));
  const SafetensorsFile twin(split_over_ranks("torch/llama/model.safetensors"));
  EXPECT_EQ(found.file_count(), 2u);
  EXPECT_TRUE(found.check_sums());
  EXPECT_THAT(found.other_items(), ::testing::Contains("train_state.step"));
  // Split by rows, by columns, and a vector: every range.
  const std::pair<const char*, const char*> names[] = {
      {"layers.1.feed_forward.w1.weight", "model.layers.1.mlp.gate_proj.weight"},
      {"layers.0.feed_forward.w2.weight", "model.layers.0.mlp.down_proj.weight"},
      {"norm.weight", "model.norm.weight"}};
  for (const auto& [name, other] : names) {
    const TensorEntry& entry = found.entry(name);
    const StoredTensor& stored = *twin.find(other);
    ASSERT_EQ(entry.shape, stored.entry.shape) << name;
    const std::int64_t n = entry.elements();
    for (std::int64_t begin = 0; begin < n; begin += 7)
      for (std::int64_t end = begin; end <= n; end += n / 16) {
        std::vector<std::byte> scratch;
        const auto bytes = found.elements(entry, begin, end, scratch);
        ASSERT_EQ(bytes.size(), static_cast<std::size_t>(end - begin) * 4);
        ASSERT_EQ(std::memcmp(bytes.data(), stored.bytes.data() + begin * 4, bytes.size()), 0)
            << name << " " << begin << " to " << end;
      }
  }
  // What one rank wrote in one piece is not copied.
  std::vector<std::byte> scratch;
  const TensorEntry& rows = found.entry("layers.1.feed_forward.w1.weight");
  found.elements(rows, 0, rows.elements() / 2, scratch);
  EXPECT_TRUE(scratch.empty());
}

TEST(DistributedCheckpoint, OfMegatronHasLayersInFront) {
  const DistributedCheckpoint found(split_over_ranks("megatron/iter_0000007"));
  EXPECT_EQ(found.entry("decoder.layers.self_attention.linear_qkv.weight").shape,
            (std::vector<std::int64_t>{2, 32, 16}));
  EXPECT_EQ(found.entry("decoder.layers.mlp.linear_fc1.weight").shape,
            (std::vector<std::int64_t>{2, 48, 16}));
  EXPECT_TRUE(found.check_sums());
}

TEST(DistributedCheckpoint, SaysWhatIsMissingOrDamaged) {
  TestFolder directory;
  const fs::path path = directory.path() / "step-1";
  const auto refused = [&](const std::string& message) {
    EXPECT_THAT([&] { DistributedCheckpoint{path}; }, ThrowsMessage<Error>(HasSubstr(message)));
  };
  refused("has no .metadata");
  fs::copy(split_over_ranks("torchtitan"), path);
  const std::string part = read_text(path / "__0_0.distcp");
  write_text(path / "__0_0.distcp", part.substr(0, part.size() / 2));
  refused("truncated?");
  fs::remove(path / "__0_0.distcp");
  refused("files that cannot be read:\n  __0_0.distcp");
  write_text(path / "__0_0.distcp", part);
  std::string metadata = read_text(path / ".metadata");
  const auto at = metadata.find("__0_0.distcp");
  ASSERT_NE(at, metadata.npos);
  metadata.replace(at, 4, "../_");
  write_text(path / ".metadata", metadata);
  refused("only files of its own directory");
  write_text(path / ".metadata", metadata.substr(0, 100));
  refused("truncated?");
}

}  // namespace
}  // namespace stoa::ckpt::torch
