// T5's config.json in the forms of transformers 4 and 5, and the names of its tensors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/huggingface/config_json.h"
#include "model/huggingface/tensor_map.h"

namespace stoa::model::huggingface {
namespace {

using ::testing::HasSubstr;

std::string json(const std::string& type, const std::string& more) {
  return "{\"model_type\":\"" + type +
         "\",\"vocab_size\":32,\"d_model\":16,\"d_kv\":6,\"d_ff\":24,\"num_layers\":2,\"num_decoder_layers\":"
         "3,"
         "\"num_heads\":4,\"relative_attention_num_buckets\":8,\"relative_attention_max_distance\":16,"
         "\"dropout_rate\":0.1,\"is_encoder_decoder\":true,\"n_positions\":512,\"pad_token_id\":0,"
         "\"eos_token_id\":1,\"decoder_start_token_id\":0" +
         more + "}";
}

TEST(T5Files, VersionsAreToldApart) {
  // 1.0; 1.1 as transformers 4 writes it; the same as transformers 5 does, which calls every model tied and
  // ties those that it begins.
  const ModelConfig first = read_config(json("t5", ",\"feed_forward_proj\":\"relu\"")).config;
  EXPECT_EQ(first.kind, ModelKind::kT5);
  EXPECT_EQ(first.num_layers, 5);
  EXPECT_EQ(first.encoder_layers(), 2);
  EXPECT_EQ(first.activation, Activation::kRelu);
  EXPECT_TRUE(first.share_embeddings_and_output_weights);
  EXPECT_TRUE(first.t5.scale_decoder_outputs);
  for (const char* more : {",\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":false",
                           ",\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":true,"
                           "\"scale_decoder_outputs\":false"}) {
    const ModelConfig second = read_config(json("t5", more)).config;
    EXPECT_EQ(second.activation, Activation::kGegluTanh);
    EXPECT_EQ(second.share_embeddings_and_output_weights,
              std::string_view(more).find(":true") != std::string_view::npos)
        << more;
    EXPECT_FALSE(second.t5.scale_decoder_outputs);
  }
  // transformers 5 leaves out that mT5 is tied; 4 says that it is not, and a head in the files unties it.
  EXPECT_TRUE(read_config(json("mt5", "")).config.share_embeddings_and_output_weights);
  EXPECT_EQ(read_config(json("t5", ",\"feed_forward_proj\":\"gelu\"")).config.activation, Activation::kGelu);
  for (const char* tied : {"false", "true"}) {
    const ModelConfig third =
        read_config(json("mt5", std::string(",\"tie_word_embeddings\":") + tied)).config;
    EXPECT_EQ(third.share_embeddings_and_output_weights, std::string_view(tied) == "true");
    EXPECT_FALSE(third.t5.scale_decoder_outputs);
  }
  EXPECT_THROW(read_config(json("t5", ",\"feed_forward_proj\":\"gated-tanh\"")), ConfigError);
  EXPECT_THROW(read_config(json("t5", ",\"some_new_maths\":2")), ConfigError);
}

TEST(T5Files, ComeBackAsTheSameFunction) {
  for (const char* more : {",\"feed_forward_proj\":\"relu\"",
                           ",\"feed_forward_proj\":\"gated-gelu\",\"tie_word_embeddings\":false",
                           ",\"feed_forward_proj\":\"gated-gelu\",\"scale_decoder_outputs\":false"}) {
    ModelConfig config = read_config(json("t5", more)).config;
    config.t5.seq_length_dec = 64;
    std::string why;
    const Family& family = choose_family(config, &why);
    EXPECT_EQ(family.type, "t5") << why;
    const ModelSpec spec = resolve_model(config);
    const ModelConfig again = read_config(write_config(spec, family, DType::kF32, {})).config;
    EXPECT_EQ(again.activation, config.activation);
    EXPECT_EQ(again.share_embeddings_and_output_weights, config.share_embeddings_and_output_weights);
    EXPECT_EQ(again.t5.scale_decoder_outputs, config.t5.scale_decoder_outputs);
    std::set<std::string> names;
    for (const Tensor& tensor : tensors(spec, family)) names.insert(tensor.name);
    EXPECT_EQ(names.size(), canonical_tensors(spec).size());
    const bool plain = config.activation == Activation::kRelu;
    for (const char* name :
         {"shared.weight", "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight",
          "decoder.block.2.layer.1.EncDecAttention.k.weight", "decoder.block.1.layer.2.layer_norm.weight",
          "decoder.final_layer_norm.weight", "encoder.block.1.layer.1.DenseReluDense.wo.weight"})
      EXPECT_TRUE(names.contains(name)) << name;
    EXPECT_EQ(names.contains("encoder.block.1.layer.1.DenseReluDense.wi.weight"), plain);
    EXPECT_EQ(names.contains("decoder.block.0.layer.2.DenseReluDense.wi_1.weight"), !plain);
    EXPECT_EQ(names.contains("lm_head.weight"), !config.share_embeddings_and_output_weights);
  }
  // NeMo's learned positions are no family's.
  ModelConfig learned = read_config(json("t5", "")).config;
  learned.position_embedding_type = PositionEmbedding::kLearnedAbsolute;
  learned.t5.scale_attention = true;
  EXPECT_EQ(choose_family(learned).type, stoa_family().type);
  const ModelConfig own =
      read_config(write_config(resolve_model(learned), stoa_family(), DType::kF32, {})).config;
  EXPECT_EQ(own.kind, ModelKind::kT5);
  EXPECT_EQ(own.encoder_layers(), learned.encoder_layers());
  EXPECT_EQ(own.position_embedding_type, PositionEmbedding::kLearnedAbsolute);
  EXPECT_TRUE(own.t5.scale_attention);
  // Fewer positions than targets have by default.
  learned.max_position_embeddings = learned.encoder_seq_length = 32;
  learned.t5.seq_length_dec = 16;
  EXPECT_EQ(read_config(write_config(resolve_model(learned), stoa_family(), DType::kF32, {}))
                .config.max_positions(),
            32);
  // Half of the layers, said or not.
  ModelConfig half = read_config(json("t5", ",\"feed_forward_proj\":\"relu\"")).config;
  half.num_layers = 4;
  half.t5.encoder_layers.reset();
  EXPECT_EQ(choose_family(half).type, "t5");
}

TEST(T5Files, CopiesOfTheEmbeddingAreNotNeeded) {
  const ModelConfig config = read_config(json("t5", ",\"feed_forward_proj\":\"relu\"")).config;
  const ModelSpec spec = resolve_model(config);
  const Family& family = choose_family(config);
  const auto wanted = tensors(spec, family);
  std::vector<FileTensor> file;
  for (const Tensor& tensor : wanted) file.push_back({tensor.name, tensor.shape});
  file.push_back({"encoder.embed_tokens.weight", {32, 16}});
  file.push_back({"decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight", {8, 4}});
  EXPECT_EQ(match(wanted, file, family, config).ignored.size(), 2u);
}

}  // namespace
}  // namespace stoa::model::huggingface
