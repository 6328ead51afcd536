#include "infer/model_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/test_folder.h"
#include "infer/canonical_index.h"
#include "model/chunk.h"

namespace stoa::infer {
namespace {

namespace hf = model::huggingface;

// A small T5 as files hold it: `keys` in its config.json, a head of its own when `head` is a number, of which
// it consists; the embedding consists of ones.
struct T5Files {
  T5Files(const std::string& keys, std::optional<float> head) {
    const auto config_of = [&](const std::string& more) {
      return "{\"model_type\":\"t5\",\"vocab_size\":32,\"d_model\":16,\"d_kv\":4,\"d_ff\":24,\"num_layers\":"
             "1,\"num_heads\":4,\"feed_forward_proj\":\"gated-gelu\"" +
             more + "}";
    };
    const hf::ModelDescription description =
        hf::read_config(config_of(head ? ",\"tie_word_embeddings\":false" : ""));
    const model::ModelSpec spec = model::resolve_model(description.config);
    std::vector<float> values(1024);
    ckpt::ShardedWriter writer(directory.path(), ckpt::kModelStem,
                               model_entries(spec, *description.family, DType::kF32),
                               ckpt::WriteMode::kInPlace);
    write_model(writer, spec, *description.family, DType::kF32, [&](const std::string& name) {
      std::fill(values.begin(), values.end(), name == "head.weight" ? head.value() : 1.0f);
      return TensorView(values.data(), DType::kF32, {static_cast<std::int64_t>(values.size())});
    });
    writer.commit();
    write_text(directory.path() / "config.json", config_of(keys));
  }
  bool tied() const {
    return ModelFiles(directory.path()).model().config.share_embeddings_and_output_weights;
  }

  TestFolder directory;
};

constexpr const char *kFour = ",\"tie_word_embeddings\":false",
                     *kFive = ",\"tie_word_embeddings\":true,\"scale_decoder_outputs\":false",
                     *kFirst = ",\"tie_word_embeddings\":true";

// transformers 5 writes the same configuration for a head that it has tied and for one that it has read.
TEST(ModelFiles, TensorsTellWhetherTheHeadOfT5IsItsOwn) {
  EXPECT_FALSE(T5Files(kFour, 2.0f).tied());
  EXPECT_FALSE(T5Files(kFive, 2.0f).tied());
  EXPECT_TRUE(T5Files(kFive, 1.0f).tied()) << "as transformers 5 reads a head that equals the embedding";
  EXPECT_TRUE(T5Files(kFive, {}).tied());
  EXPECT_TRUE(T5Files(kFirst, {}).tied());
  EXPECT_FALSE(ModelFiles(T5Files(kFive, 2.0f).directory.path()).model().config.t5.scale_decoder_outputs);
}

TEST(ModelFiles, RefusesAHeadThatContradictsTheConfiguration) {
  const T5Files first(kFirst, 2.0f), absent(kFour, {});
  EXPECT_THAT([&] { (void)first.tied(); },
              testing::ThrowsMessage<DataError>(::testing::HasSubstr("set tie_word_embeddings to false")));
  EXPECT_THAT([&] { (void)absent.tied(); },
              testing::ThrowsMessage<DataError>(::testing::HasSubstr("missing: lm_head.weight")));
}

void read_all(const ModelFiles& files) {
  const model::Chunk chunk = model::whole_chunk(files.model());
  std::vector<std::vector<float>> memory;
  for (const auto& spec : chunk.params().specs())
    memory.emplace_back(static_cast<std::size_t>(spec.shard.local.elements()));
  files.read(
      HeldParameters::whole(chunk.params().specs()),
      [&](nn::ParamId id) {
        const auto p = static_cast<std::size_t>(id.index);
        return TensorView(memory[p].data(), DType::kF32, chunk.params().specs()[p].shard.local);
      },
      [](nn::ParamId) {});
}

TEST(ModelFiles, RefusesWeightsThatAreNotNumbers) {
  const T5Files good(kFour, 2.0f), bad(kFour, std::numeric_limits<float>::quiet_NaN()),
      infinite(kFour, -std::numeric_limits<float>::infinity());
  read_all(ModelFiles(good.directory.path()));
  for (const T5Files* files : {&bad, &infinite})
    EXPECT_THAT([&] { read_all(ModelFiles(files->directory.path())); },
                testing::ThrowsMessage<DataError>(
                    ::testing::AllOf(::testing::HasSubstr("tensor 'lm_head.weight': 512 of its 512 weights"),
                                     ::testing::HasSubstr("the first is element 0"))));
}

// Whoever reads needs host memory for few parameters at a time, and is told once that one is complete.
TEST(ModelFiles, ParametersAreFilledOneAfterAnother) {
  const TestFolder directory;
  write_text(directory.path() / "config.json",
             R"({"model_type": "mixtral", "vocab_size": 32, "hidden_size": 16, "num_attention_heads": 4,
                 "num_key_value_heads": 2, "num_hidden_layers": 3, "intermediate_size": 8,
                 "max_position_embeddings": 32, "num_local_experts": 4, "num_experts_per_tok": 2})");
  const auto description = hf::read_config(read_text(directory.path() / "config.json"));
  const model::ModelSpec spec = model::resolve_model(description.config);
  ckpt::ShardedWriter writer(directory.path(), ckpt::kModelStem,
                             model_entries(spec, *description.family, DType::kBF16),
                             ckpt::WriteMode::kInPlace);
  const std::vector<float> values(1024, 0.5f);
  write_model(writer, spec, *description.family, DType::kBF16, [&](const std::string&) {
    return TensorView(const_cast<float*>(values.data()), DType::kF32, {1024});
  });
  writer.commit();
  const ModelFiles files(directory.path());
  const model::Chunk chunk = model::whole_chunk(files.model());
  HeldParameters rank = HeldParameters::whole(chunk.params().specs());
  rank.parts[1].flat = FlatRange{8, 8};  // nothing of it
  std::map<int, std::vector<float>> memory;
  std::set<int> filled;
  std::size_t most = 0;
  files.read(
      rank,
      [&](nn::ParamId id) {
        const Shape& local = rank.parts[static_cast<std::size_t>(id.index)].local;
        EXPECT_FALSE(memory.contains(id.index) || filled.contains(id.index));
        std::vector<float>& values_of = memory[id.index];
        values_of.assign(static_cast<std::size_t>(local.elements()), -1);
        most = std::max(most, memory.size());
        return TensorView(values_of.data(), DType::kF32, local);
      },
      [&](nn::ParamId id) {
        // All values, and zero in padding.
        const auto p = static_cast<std::size_t>(id.index);
        const auto count = [&](float value) {
          return std::count(memory.at(id.index).begin(), memory.at(id.index).end(), value);
        };
        EXPECT_EQ(count(0.5f), rank.parts[p].canonical_elements()) << rank.parts[p].pieces.front().name;
        EXPECT_EQ(count(0.5f) + count(0), rank.parts[p].local.elements());
        memory.erase(id.index);
        filled.insert(id.index);
      });
  EXPECT_EQ(filled.size(), rank.parts.size() - 1);
  EXPECT_FALSE(filled.contains(1));
  EXPECT_LE(most, 3u);
}

// Every weight of a tiny llama as `type`.
TEST(ModelFiles, NamesTypesThatAreNoWeightsAsTheFileDoes) {
  for (const auto type : {ckpt::StorageType::kI8, ckpt::StorageType::kF8E4M3, ckpt::StorageType::kF8E5M2,
                          ckpt::StorageType::kU8, ckpt::StorageType::kI32}) {
    const TestFolder directory;
    write_text(directory.path() / "config.json",
               R"({"model_type": "llama", "vocab_size": 32, "hidden_size": 16, "num_attention_heads": 4,
                   "num_hidden_layers": 1, "intermediate_size": 8, "max_position_embeddings": 32})");
    const auto description = hf::read_config(read_text(directory.path() / "config.json"));
    auto entries = model_entries(model::resolve_model(description.config), *description.family, DType::kF32);
    for (auto& entry : entries) entry.type = type;
    ckpt::ShardedWriter writer(directory.path(), ckpt::kModelStem, entries, ckpt::WriteMode::kInPlace);
    for (const auto& entry : entries) writer.write_bytes(entry.name, std::vector<std::byte>(entry.bytes()));
    writer.commit();
    EXPECT_THAT([&] { ModelFiles files(directory.path()); },
                testing::ThrowsMessage<DataError>(::testing::AllOf(
                    ::testing::HasSubstr(fmt::format("is {}, and weights are", ckpt::name_of(type))),
                    ::testing::HasSubstr("model.dequantize()"))));
  }
}

// Experts' matrices as gpt-oss' files hold them: rows of gate and up take turns.
TEST(ModelFiles, ReadsMxfp4) {
  const TestFolder directory;
  write_text(directory.path() / "config.json",
             R"({"model_type": "gpt_oss", "vocab_size": 32, "hidden_size": 64, "num_attention_heads": 2,
                 "head_dim": 8, "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 32,
                 "max_position_embeddings": 32, "num_local_experts": 2, "num_experts_per_tok": 1,
                 "sliding_window": 4, "quantization_config": {"quant_method": "mxfp4"}})");
  const auto description = hf::read_config(read_text(directory.path() / "config.json"));
  std::vector<ckpt::TensorEntry> entries;
  for (auto entry :
       model_entries(model::resolve_model(description.config), *description.family, DType::kF32)) {
    if (!entry.name.ends_with("_proj")) {
      entries.push_back(entry);
      continue;
    }
    auto scales = entry;  // [experts, inputs, outputs] of the floating-point tensor
    scales.name += "_scales";
    scales.type = ckpt::StorageType::kU8;
    scales.shape = {entry.shape[0], entry.shape[2], entry.shape[1] / 32};
    auto blocks = scales;
    blocks.name = entry.name + "_blocks";
    blocks.shape.push_back(16);
    entries.push_back(scales);
    entries.push_back(blocks);
  }
  ckpt::ShardedWriter writer(directory.path(), ckpt::kModelStem, entries, ckpt::WriteMode::kInPlace);
  for (const auto& entry : entries) {
    std::vector<std::byte> bytes(entry.bytes());
    const bool blocks = entry.name.ends_with("_blocks"), scales = entry.name.ends_with("_scales");
    for (std::size_t i = 0; i < bytes.size(); ++i)
      if (blocks)
        bytes[i] = static_cast<std::byte>((i * 37 + i / 64) & 255);
      else if (scales)
        bytes[i] = static_cast<std::byte>(120 + i % 13);
    writer.write_bytes(entry.name, bytes);
  }
  writer.commit();
  const ModelFiles files(directory.path());
  const model::Chunk chunk = model::whole_chunk(files.model());
  const auto& specs = chunk.params().specs();
  std::vector<std::vector<float>> memory;
  for (const auto& spec : specs) memory.emplace_back(static_cast<std::size_t>(spec.shard.local.elements()));
  const auto target = [&](nn::ParamId id) {
    const auto p = static_cast<std::size_t>(id.index);
    return TensorView(memory[p].data(), DType::kF32, specs[p].shard.local);
  };
  files.read(HeldParameters::whole(specs), target, [](nn::ParamId) {});
  const CanonicalIndex index(specs);
  const auto at = [&](const std::string& name, std::int64_t row, std::int64_t column) {
    const auto& place = index.at(name);
    return CanonicalIndex::in(place, target(place.parameter)).as<float>()[row * place.shape[1] + column];
  };
  constexpr float kValues[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.f, -0.5, -1, -1.5, -2, -3, -4, -6};
  const auto expected = [&](std::int64_t matrix_row, std::int64_t columns, std::int64_t column) {
    const std::int64_t block = matrix_row * columns / 32 + column / 32, byte = block * 16 + column % 32 / 2;
    const int pair = static_cast<int>((byte * 37 + byte / 64) & 255);
    return kValues[column % 2 == 0 ? pair & 15 : pair >> 4] *
           std::ldexp(1.0f, static_cast<int>(120 + block % 13) - 127);
  };
  for (std::int64_t expert = 0; expert < 2; ++expert) {
    const std::string name = fmt::format("layers.0.moe.experts.{}.", expert);
    for (std::int64_t r = 0; r < 32; ++r)
      for (std::int64_t c = 0; c < 64; ++c) {
        EXPECT_EQ(at(name + "gate.weight", r, c), expected(expert * 64 + 2 * r, 64, c));
        EXPECT_EQ(at(name + "up.weight", r, c), expected(expert * 64 + 2 * r + 1, 64, c));
      }
    for (std::int64_t r = 0; r < 64; ++r)
      for (std::int64_t c = 0; c < 32; ++c)
        EXPECT_EQ(at(name + "down.weight", r, c), expected(expert * 64 + r, 32, c));
  }
}

}  // namespace
}  // namespace stoa::infer
