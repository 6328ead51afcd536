#include "ckpt/torch/distributed_writer.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/test_folder.h"
#include "base/test_paths.h"
#include "ckpt/safetensors.h"
#include "ckpt/tensor_directory.h"
#include "ckpt/torch/distributed_checkpoint.h"
#include "ckpt/torch/torch_tree.h"
#include "ckpt/torch/torch_writer.h"

namespace stoa::ckpt::torch {
namespace {

TEST(DistributedWriter, WritesWhatIsReadBack) {
  const TensorDirectory model(test::source_dir() / "tests/fixtures/torch/llama");
  std::vector<WrittenTensor> tensors;
  // Two layers in one tensor, and the others as they are.
  WrittenTensor stacked{"layers.w", StorageType::kF32, {2}, {}};
  for (const int layer : {0, 1}) {
    const TensorEntry& entry = model.entry(fmt::format("model.layers.{}.mlp.gate_proj.weight", layer));
    stacked.shape = {2, entry.shape[0], entry.shape[1]};
    stacked.parts.push_back({{layer, 0, 0}, {1, entry.shape[0], entry.shape[1]}, &model, &entry, 0});
  }
  tensors.push_back(stacked);
  const TensorEntry& norm = model.entry("model.norm.weight");
  tensors.push_back({"norm", StorageType::kBF16, norm.shape, {{{0}, norm.shape, &model, &norm, 0}}});
  const TestFolder directory;
  std::uint64_t last = 0;
  write_distributed(directory.path(), tensors, {"state/shard_0_1"}, 700,
                    [&](std::uint64_t done, std::uint64_t total) {
                      EXPECT_LE(done, total);
                      last = total - done;
                    });
  EXPECT_EQ(last, 0u);

  const DistributedCheckpoint found(directory.path());
  EXPECT_TRUE(found.check_sums());
  EXPECT_EQ(found.other_items(), std::vector<std::string>{"state/shard_0_1"});
  EXPECT_GT(found.file_count(), 1u);
  std::vector<std::byte> a, b;
  const auto bytes = found.all_elements(found.entry("layers.w"), a);
  const auto second = model.all_elements(model.entry("model.layers.1.mlp.gate_proj.weight"), b);
  EXPECT_EQ(std::memcmp(bytes.data() + bytes.size() / 2, second.data(), second.size()), 0);
  EXPECT_EQ(found.entry("norm").type, StorageType::kBF16);
}

TEST(TorchWriter, ValuesAreReadBack) {
  PickleWriter pickle;
  pickle.begin_dict()
      .text("numbers")
      .begin_list()
      .integer(-5)
      .integer(std::int64_t{1} << 40)
      .real(0.25)
      .end_list();
  pickle.text("flag").boolean(true).text("nothing").none();
  pickle.text("args").global("argparse", "Namespace").begin_tuple().end_tuple().object().begin_dict();
  pickle.text("num_layers").integer(2).end_dict().state().end_dict();
  const std::string file = torch_file_of(pickle.finish());
  const TorchFile read(std::as_bytes(std::span(file)), "test");
  EXPECT_TRUE(read.check_sums());
  const Value root = read.root(), numbers = *root.find("numbers");
  EXPECT_EQ(numbers[0].integer(), -5);
  EXPECT_EQ(numbers[1].integer(), std::int64_t{1} << 40);
  EXPECT_EQ(numbers[2].number(), 0.25);
  EXPECT_TRUE(root.find("flag")->boolean());
  EXPECT_TRUE(root.find("nothing")->is(ValueKind::kNone));
  EXPECT_EQ(root.find("args")->attribute("num_layers")->integer(), 2);
}

TEST(TorchTree, NamesTensorsByTheirWay) {
  PickleWriter pickle;
  pickle.begin_dict().text("model").begin_dict().text("a.weight");
  write_tensor_value(pickle, StorageType::kF32, {0}, 0);
  pickle.end_dict().text("optimizer").begin_list().begin_dict().integer(3);
  write_tensor_value(pickle, StorageType::kF32, {0, 2}, 0);
  pickle.end_dict().end_list().end_dict();
  const std::string file = torch_file_of(pickle.finish());
  const TorchTree tree(std::as_bytes(std::span(file)), "test");
  ASSERT_EQ(tree.in_order().size(), 2u);
  EXPECT_EQ(tree.in_order()[0]->name, "model.a.weight");
  EXPECT_EQ(tree.in_order()[1]->name, "optimizer.0.3");
  EXPECT_EQ(tree.in_order()[1]->shape, (std::vector<std::int64_t>{0, 2}));
}

}  // namespace
}  // namespace stoa::ckpt::torch
