// InternLM 2, which transformers does not have: its fused rows as the definition published with its weights
// takes them apart.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "model/huggingface/config_json.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::model::huggingface {
namespace {

TEST(Internlm2, FusedRowsAreGroupsOfQueriesAKeyAndAValue) {
  const auto description = read_config(
      R"({"model_type":"internlm2","vocab_size":9,"hidden_size":12,"intermediate_size":8,"num_hidden_layers":1,
          "num_attention_heads":6,"num_key_value_heads":2,"max_position_embeddings":16,"bias":false,
          "rope_scaling":{"type":"dynamic","factor":2.0}})");
  EXPECT_EQ(description.config.rope_scaling.type, RopeScaling::kDynamic);
  const ModelSpec spec = resolve_model(description.config);
  const auto all = tensors(spec, *description.family);
  std::vector<std::string> names;
  for (const Tensor& tensor : all) names.push_back(tensor.name);
  EXPECT_EQ(names, (std::vector<std::string>{
                       "model.tok_embeddings.weight", "model.layers.0.attention_norm.weight",
                       "model.layers.0.attention.wqkv.weight", "model.layers.0.attention.wo.weight",
                       "model.layers.0.ffn_norm.weight", "model.layers.0.feed_forward.w1.weight",
                       "model.layers.0.feed_forward.w3.weight", "model.layers.0.feed_forward.w2.weight",
                       "model.norm.weight", "output.weight"}));
  const Tensor& fused = all[2];
  ASSERT_EQ(fused.shape, (Shape{20, 12}));
  std::vector<float> file(20 * 12);
  for (std::size_t i = 0; i < file.size(); ++i) file[i] = static_cast<float>(i);
  std::map<std::string, std::vector<float>> parts;
  scatter(fused, DType::kF32, reinterpret_cast<const std::byte*>(file.data()), [&](const auto& part) {
    auto& values = parts[part.name];
    values.resize(static_cast<std::size_t>(part.shape.elements()));
    return reinterpret_cast<std::byte*>(values.data());
  });
  // rearrange(qkv, "(h gs d) -> h gs d", gs = 2 + queries of a key): queries [:-2], key [-2], value [-1].
  constexpr std::size_t kHead = 2, kQueries = 3, kRow = 12;
  const auto expect_row = [&](const char* name, std::size_t row, std::size_t file_row) {
    const auto& values = parts.at(std::string("layers.0.attention.") + name + ".weight");
    for (std::size_t c = 0; c < kRow; ++c)
      EXPECT_EQ(values.at(row * kRow + c), file[file_row * kRow + c]) << name << " " << row;
  };
  for (std::size_t h = 0; h < 2; ++h)
    for (std::size_t i = 0; i < kHead; ++i) {
      const std::size_t group = h * (kQueries + 2);
      for (std::size_t j = 0; j < kQueries; ++j)
        expect_row("q", (h * kQueries + j) * kHead + i, (group + j) * kHead + i);
      expect_row("k", h * kHead + i, (group + kQueries) * kHead + i);
      expect_row("v", h * kHead + i, (group + kQueries + 1) * kHead + i);
    }
}

TEST(KimiK2, IsDeepseekV3UnderAnotherName) {
  const std::string rest = R"(","num_hidden_layers":3,"n_routed_experts":384,"n_group":1,"topk_group":1})";
  const auto kimi = read_config(R"({"model_type":"kimi_k2)" + rest),
             deepseek = read_config(R"({"model_type":"deepseek_v3)" + rest);
  const ModelSpec spec = resolve_model(kimi.config);
  EXPECT_EQ(write_config(spec, *deepseek.family, DType::kF32, {}),
            write_config(resolve_model(deepseek.config), *deepseek.family, DType::kF32, {}));
  const auto ours = tensors(spec, *kimi.family), theirs = tensors(spec, *deepseek.family);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) EXPECT_EQ(ours[i].name, theirs[i].name);
}

}  // namespace
}  // namespace stoa::model::huggingface
