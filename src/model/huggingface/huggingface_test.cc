// Files that are not as they should be, and files of older versions.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/test_paths.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/tensor_map.h"
#include "model/same_function.h"

namespace stoa::model::huggingface {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& text) {
  try {
    read_config(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

const char* kLlamaText =
    R"({"model_type":"llama","vocab_size":32,"hidden_size":16,"intermediate_size":24,"num_hidden_layers":2,
        "num_attention_heads":4,"max_position_embeddings":64)";
std::string llama(const std::string& more) { return kLlamaText + more + "}"; }

TEST(ReadConfig, RefusesByName) {
  EXPECT_THAT(refusal("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal("{\"a\":"), HasSubstr("not valid JSON: parse error at line 1, column 6"));
  EXPECT_THAT(refusal(llama(R"(,"x":Infinity)")), HasSubstr("not valid JSON"));
  EXPECT_THAT(refusal("{}"), HasSubstr("model_type"));
  EXPECT_THAT(refusal(R"({"model_type":"lama"})"), HasSubstr("did you mean 'llama'"));
  EXPECT_THAT(refusal(llama(R"(,"hidden_act":"tanh")")), HasSubstr("hidden_act 'tanh'"));
  EXPECT_THAT(refusal(llama(R"(,"rms_norm_eps":"1e-5")")),
              HasSubstr("rms_norm_eps is \"1e-5\", expected a number"));
  EXPECT_THAT(refusal(llama(R"(,"head_dim":2.5)")), HasSubstr("head_dim is 2.5"));
  EXPECT_THAT(refusal(llama(R"(,"head_dim":-4)")), HasSubstr("head_dim is -4"));
  EXPECT_THAT(refusal(llama(R"(,"head_dim":1e300)")), HasSubstr("head_dim"));
  EXPECT_THAT(refusal(llama(R"(,"partial_rotary_factor":0.5)")), HasSubstr("partial_rotary_factor"));
  EXPECT_THAT(refusal(llama(R"(,"logit_scale":2.0)")), HasSubstr("logit_scale = 2.0 is not known for llama"));
  EXPECT_THAT(refusal(llama(R"(,"rope_scaling":{"type":"lineal","factor":2})")),
              HasSubstr("did you mean 'linear'"));
  EXPECT_THAT(refusal(llama(R"(,"rope_scaling":{"type":"linear","factor":2,"speed":3})")),
              HasSubstr("rope_parameters.speed"));
  EXPECT_THAT(refusal(llama(R"(,"num_key_value_heads":3)")), HasSubstr("num_query_groups 3"));
  EXPECT_THAT(refusal(R"({"model_type":"gpt2","scale_attn_by_inverse_layer_idx":true})"),
              HasSubstr("scale_attn_by_inverse_layer_idx"));
  EXPECT_THAT(refusal(R"({"model_type":"qwen3","layer_types":["sliding_attention"]})"),
              HasSubstr("layer_types has 1"));
  EXPECT_THAT(refusal(R"({"model_type":"qwen3","num_hidden_layers":1,"use_sliding_window":true,
                          "layer_types":["linear_attention"]})"),
              HasSubstr("layer_types[0] is 'linear_attention'"));
  EXPECT_THAT(refusal(llama(",\"x\":" + std::string(100000, '['))), HasSubstr("nested"));
  // Says nothing, or belongs to every configuration: ignored.
  EXPECT_EQ(
      refusal(llama(
          R"(,"logit_scale":null,"use_cache":true,"pretraining_tp":1,"_attn":"x","id2label":{"0":"a"})")),
      "");
}

// What published files carry beyond the keys of transformers.
TEST(ReadConfig, PassesOverWhatChangesNothing) {
  EXPECT_EQ(refusal(llama(R"(,"max_sequence_length":2048)")), "");
  EXPECT_EQ(refusal(R"({"model_type":"qwen3_moe","use_qk_norm":true})"), "");
  EXPECT_THAT(refusal(R"({"model_type":"qwen3_moe","use_qk_norm":false})"), HasSubstr("use_qk_norm"));
}

// Who plans needs no weights.
TEST(ReadConfig, TellsOfQuantisedWeights) {
  const auto read = read_config(R"({"model_type":"qwen3","quantization_config":{"quant_method":"fp8"}})");
  EXPECT_EQ(read.quantised, "quantization_config: weights quantised by FP8 in blocks");
  EXPECT_FALSE(read_config(R"({"model_type":"qwen3"})").quantised);
}

// Qwen3.5 and 3.6 are published with the parts that see.
TEST(ReadConfig, TheTextOfAModelThatSeesImages) {
  const auto text = read_config(R"({"model_type":"qwen3_5_text","num_hidden_layers":4,"hidden_size":64})");
  const auto whole = read_config(R"({"model_type":"qwen3_5","vision_config":{"depth":2},"image_token_id":7,
      "video_token_id":8,"vision_start_token_id":9,"vision_end_token_id":10,"tie_word_embeddings":false,
      "text_config":{"model_type":"qwen3_5_text","num_hidden_layers":4,"hidden_size":64,"eos_token_id":5,
                     "attn_output_gate":true,"mtp_num_hidden_layers":1,"mtp_use_dedicated_embeddings":false,
                     "mamba_ssm_dtype":"float32","output_gate_type":"swish"}})");
  EXPECT_TRUE(function_differences(text.config, whole.config, Purpose::kResume).empty());
  EXPECT_THAT(refusal(R"({"model_type":"qwen3_5_text","output_gate_type":"tanh"})"),
              HasSubstr("output_gate_type"));
  EXPECT_THAT(refusal(R"({"model_type":"qwen3_5"})"), HasSubstr("text_config is missing"));
  EXPECT_THAT(refusal(R"({"model_type":"qwen3_5","text_config":{"speed":3}})"),
              HasSubstr("text_config.speed"));
}

// A neighbour by spelling is another model: only what differs by case, separators or doubled letters is
// suggested.
TEST(ReadConfig, AnUnknownTypeIsAnsweredWithoutAGuess) {
  for (const char* type : {"xglm", "gpt3", "qwen4", "bart", "glm5", "gemma4", "mamba", ""}) {
    const std::string said = refusal(fmt::format(R"({{"model_type":"{}"}})", type));
    EXPECT_THAT(said, HasSubstr(fmt::format("model_type '{}' is not a family that Stoa can load", type)));
    EXPECT_EQ(said.find("did you mean"), said.npos) << said;
    EXPECT_THAT(said, HasSubstr("gpt2")) << "the families are listed";
  }
  for (const char* type : {"GPT-2", "gpt_2", "lama", "Qwen3-MoE"})
    EXPECT_THAT(refusal(fmt::format(R"({{"model_type":"{}"}})", type)), HasSubstr("did you mean"));
}

ModelConfig config_of(const std::string& text) { return read_config(text).config; }

// transformers: `rope_scaling or rope_parameters`.
TEST(ReadConfig, RopeScalingCountsBeforeRopeParameters) {
  const std::string both =
      R"(,"rope_theta":5e5,"rope_parameters":{"rope_type":"default","rope_theta":1e4},"rope_scaling":)";
  const ModelConfig scaled = config_of(llama(both + R"({"type":"linear","factor":4.0})"));
  EXPECT_EQ(scaled.rope_scaling.type, RopeScaling::kLinear);
  EXPECT_EQ(scaled.rope_scaling.factor, 4);
  EXPECT_EQ(scaled.rotary_base, 5e5) << "the other dictionary is not read at all";
  for (const char* nothing : {"null", "{}"}) {
    const ModelConfig plain = config_of(llama(both + nothing));
    EXPECT_EQ(plain.rope_scaling.type, RopeScaling::kDefault);
    EXPECT_EQ(plain.rotary_base, 1e4);
  }
}

// transformers gives the window of qwen3_moe to every layer, whatever max_window_layers says.
TEST(ReadConfig, WindowsOfQwen3MoeAreOfEveryLayer) {
  const std::string text =
      R"({"model_type":"qwen3_moe","num_hidden_layers":4,"use_sliding_window":true,"sliding_window":7,
          "max_window_layers":2,"num_experts":4,"num_experts_per_tok":2})";
  const ModelConfig c = config_of(text);
  for (std::int64_t l = 0; l < 4; ++l) EXPECT_EQ(layer_window(c, l), 7) << l;
  // What has windows in some layers alone is not written as such.
  ModelConfig some = c;
  some.window_first_layer = 2;
  EXPECT_EQ(choose_family(c).type, "qwen3_moe");
  EXPECT_EQ(choose_family(some).type, "stoa_gpt");
}

TEST(ReadConfig, DeepseekMayHaveExpertsInEveryLayerInWords) {
  const auto text = [](int every) {
    return fmt::format(R"({{"model_type":"deepseek_v3","moe_layer_freq":{}}})", every);
  };
  EXPECT_EQ(refusal(text(1)), "");
  EXPECT_THAT(refusal(text(2)), HasSubstr("moe_layer_freq 2"));
}

TEST(ReadConfig, LayersWithAWindowNeedNoPeriod) {
  const ModelConfig c = config_of(
      R"({"model_type":"qwen3","num_hidden_layers":4,"use_sliding_window":true,"sliding_window":7,
          "layer_types":["sliding_attention","full_attention","full_attention","sliding_attention"]})");
  EXPECT_EQ(c.window_layers, (std::vector<std::int64_t>{0, 3}));
}

// transformers refuses to make these: they are written as another family, or in other words.
TEST(ChooseFamily, WritesNothingThatTransformersRefuses) {
  ModelConfig odd = config_of(llama(""));
  odd.hidden_size = 15;
  odd.kv_channels = 4;
  EXPECT_EQ(choose_family(odd).type, "mistral") << "llama wants a multiple of the heads";
  ModelConfig phi = config_of(R"({"model_type":"phi3","partial_rotary_factor":0.5,"sliding_window":8})");
  EXPECT_EQ(choose_family(phi).type, "phi3");
  phi.rope_scaling.type = RopeScaling::kLlama3;
  phi.rope_scaling.factor = 2;
  EXPECT_EQ(choose_family(phi).type, "stoa_gpt") << "phi3 has no scaling but longrope";
  // A mask of the window is made though no layer has one: its size is never null.
  const ModelConfig full = config_of(
      R"({"model_type":"gemma2","num_hidden_layers":2,"layer_types":["full_attention","full_attention"]})");
  EXPECT_FALSE(full.window_size);
  const auto written =
      nlohmann::json::parse(write_config(resolve_model(full), choose_family(full), DType::kF32, {}));
  EXPECT_EQ(written["model_type"], "gemma2");
  EXPECT_TRUE(written["sliding_window"].is_number());
}

TEST(ReadConfig, RotatedChannelsArePairs) {
  const std::string rope = R"(,"hidden_size":16,"num_attention_heads":4,"partial_rotary_factor":)";
  EXPECT_THAT(refusal(R"({"model_type":"stablelm")" + rope + "0.25}"), HasSubstr("0.25 of 4 channels"));
  EXPECT_THAT(refusal(R"({"model_type":"phi")" + rope + "0.1}"), HasSubstr("0.1 of 4 channels"));
  EXPECT_EQ(refusal(R"({"model_type":"phi")" + rope + "0.5}"), "");
  const std::string yarn = R"(,"rope_scaling":{"rope_type":"yarn","factor":4}})";
  EXPECT_THAT(refusal(R"({"model_type":"glm")" + rope + "0.9,\"head_dim\":4" + yarn),
              HasSubstr("yarn needs pairs"));
}

// rope_scaling null is not the default type there, but transformers' word for nothing said.
TEST(ReadConfig, GptOssIsStretchedUnlessAFileSaysOtherwise) {
  const auto scaling = [](const std::string& rope) {
    return read_config(R"({"model_type":"gpt_oss","num_hidden_layers":1)" + rope + "}")
        .config.rope_scaling.type;
  };
  EXPECT_EQ(scaling(""), RopeScaling::kYarn);
  EXPECT_EQ(scaling(R"(,"rope_theta":10000.0,"rope_scaling":null)"), RopeScaling::kYarn);
  EXPECT_EQ(scaling(R"(,"rope_scaling":{"rope_type":"default"})"), RopeScaling::kDefault);
}

TEST(ReadConfig, ConvolutionsOfLinearAttentionHaveSilu) {
  const std::string text =
      R"({"model_type":"qwen3_next","hidden_act":"relu","num_hidden_layers":2,"layer_types":)";
  EXPECT_THAT(refusal(text + R"(["linear_attention","full_attention"]})"), HasSubstr("hidden_act"));
  EXPECT_EQ(refusal(text + R"(["full_attention","full_attention"]})"), "");
}

TEST(ReadConfig, FillsDefaultsOfTheFamily) {
  EXPECT_EQ(config_of(R"({"model_type":"mixtral"})").layernorm_epsilon, 1e-5);
  const auto gpt2 = read_config(R"({"model_type":"gpt2"})").config;
  EXPECT_EQ(resolve_model(gpt2).vocabulary, 50257);
  EXPECT_EQ(parameter_count(resolve_model(gpt2)), 124439808);
  EXPECT_EQ(gpt2.hidden_dropout, 0.1);
  const auto mistral = read_config(R"({"model_type":"mistral"})").config;
  EXPECT_EQ(mistral.window_size, 4096);
  EXPECT_EQ(parameter_count(resolve_model(mistral)), 7241732096);
  EXPECT_FALSE(
      read_config(R"({"model_type":"mistral","sliding_window":null})").config.window_size.has_value());
  EXPECT_EQ(read_config(R"({"model_type":"qwen3"})").config.head_size(), 128);
  EXPECT_EQ(read_config(R"({"model_type":"llama","eos_token_id":[5,6]})").special.eos,
            (std::vector<std::int64_t>{5, 6}));
  EXPECT_EQ(parameter_count(resolve_model(read_config(R"({"model_type":"llama"})").config)), 6738415616);
}

// transformers makes a mask of it, whichever layers have one.
TEST(WriteConfig, Cohere2HasAWindowInAnyCase) {
  const auto full = read_config(R"({"model_type":"cohere2","hidden_size":16,"num_attention_heads":4,
                                   "num_key_value_heads":4,"num_hidden_layers":1,"sliding_window":5,
                                   "layer_types":["full_attention"]})");
  const std::string text = write_config(resolve_model(full.config), *full.family, DType::kF32, {});
  EXPECT_TRUE(nlohmann::json::parse(text)["sliding_window"].is_number());
  EXPECT_FALSE(read_config(text).config.window_size);
}

// Their default is a quarter.
TEST(WriteConfig, HybridsSayThatWholeHeadsRotate) {
  const auto whole =
      read_config(R"({"model_type":"qwen3_next","num_hidden_layers":1,"partial_rotary_factor":1.0})");
  EXPECT_EQ(choose_family(whole.config).type, "qwen3_next");
}

// transformers rotates the channel next to it, too.
TEST(WriteConfig, MinimaxMayRotateOneChannel) {
  const auto one =
      read_config(R"({"model_type":"minimax_m2","num_hidden_layers":1,"head_dim":2,"rotary_dim":1})");
  EXPECT_EQ(choose_family(one.config).type, "minimax_m2");
}

// MiniCPM and Granite say the same; transformers has the second alone.
TEST(ChooseFamily, PrefersWhatTransformersHas) {
  const auto minicpm =
      read_config(R"({"model_type":"minicpm","scale_emb":12,"scale_depth":1.4,"hidden_size":64,
                                      "num_attention_heads":4,"num_hidden_layers":2,"dim_model_base":16})");
  EXPECT_EQ(choose_family(minicpm.config).type, "granite");
}

// transformers' MPT takes no 0.0 there.
TEST(WriteConfig, MptHasWholeDropout) {
  const auto mpt = read_config(R"({"model_type":"mpt","d_model":16,"n_heads":4,"n_layers":1})");
  const auto written =
      nlohmann::json::parse(write_config(resolve_model(mpt.config), *mpt.family, DType::kF32, {}));
  EXPECT_TRUE(written["attn_config"]["attn_pdrop"].is_number_integer());
}

TEST(ChooseFamily, NamesWhatNoFamilyHasAndKeepsIt) {
  ModelConfig c;
  c.vocab_size = 100;
  EXPECT_EQ(choose_family(c).type, "gpt2");
  c.position_embedding_type = PositionEmbedding::kRope;
  c.rotary_percentage = 0.25;
  c.hidden_size = 64;
  c.num_attention_heads = 4;
  c.qk_layernorm = true;
  c.window_size = 77;
  c.rope_scaling.type = RopeScaling::kLinear;
  c.rope_scaling.factor = 3;
  std::string why;
  EXPECT_EQ(&choose_family(c, &why), &stoa_family());
  EXPECT_THAT(why,
              HasSubstr("the nearest family, gpt_neox, has a different qk_layernorm (false, here true);"));
  EXPECT_THAT(why, HasSubstr("window_size"));
  const ModelSpec spec = resolve_model(c);
  const std::string text = write_config(spec, stoa_family(), DType::kF32, {});
  const auto again = read_config(text);
  EXPECT_EQ(again.family, &stoa_family());
  EXPECT_EQ(write_config(resolve_model(again.config), stoa_family(), DType::kF32, {}), text);
  EXPECT_EQ(again.config.window_size, 77);
  EXPECT_EQ(again.config.rope_scaling.factor, 3);
  EXPECT_EQ(tensors(spec, stoa_family()).size(), canonical_tensors(spec).size());
}

TEST(Docs, TheWorkedExampleIsTheFile) {
  const auto text = [](const char* path) {
    std::ifstream file(test::source_dir() / path);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string example = text("src/model/huggingface/families/olmo2.cc");
  EXPECT_THAT(text("docs/add-a-model.md"), HasSubstr("```cpp\n" + example + "```\n"));
  EXPECT_LT(std::count(example.begin(), example.end(), '\n'), 150);
}

struct MatchTest : ::testing::Test {
  ModelDescription description = read_config(
      R"({"model_type":"gpt2","vocab_size":9,"n_embd":8,"n_layer":1,"n_head":2,"n_positions":4})");
  std::vector<Tensor> wanted = tensors(resolve_model(description.config), *description.family);
  std::vector<FileTensor> file;
  void SetUp() override {
    for (const auto& tensor : wanted) file.push_back({tensor.name, tensor.shape});
  }
  std::string refusal(bool tied = true) {
    try {
      ModelConfig config = description.config;
      config.share_embeddings_and_output_weights = tied;
      match(wanted, file, *description.family, config);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }
};

TEST_F(MatchTest, PrefixesAndOldBuffersDoNotMatter) {
  for (auto& tensor : file) tensor.name = tensor.name.substr(std::string("transformer.").size());
  file.push_back({"h.0.attn.bias", {1, 1, 4, 4}});
  file.push_back({"h.0.attn.masked_bias", {}});
  const Match found = match(wanted, file, *description.family, description.config);
  EXPECT_EQ(found.names[0], "wte.weight");
  EXPECT_EQ(found.ignored.size(), 2u);
  EXPECT_FALSE(found.head_beside_tied);
  EXPECT_EQ(wanted[0].shape, (Shape{9, 8}));
  const auto c_attn = std::find_if(wanted.begin(), wanted.end(),
                                   [](const Tensor& t) { return t.name.ends_with("c_attn.weight"); });
  EXPECT_TRUE(c_attn->transposed);
  EXPECT_EQ(c_attn->shape, (Shape{8, 24}));
}

TEST_F(MatchTest, TiedModelTakesEitherNameAndTellsOfBoth) {
  file.push_back({"lm_head.weight", {9, 8}});
  EXPECT_EQ(match(wanted, file, *description.family, description.config).head_beside_tied, "lm_head.weight");
  EXPECT_THAT(refusal(false), HasSubstr("unexpected: lm_head.weight"));
  file.erase(file.begin());
  EXPECT_EQ(match(wanted, file, *description.family, description.config).names[0], "lm_head.weight");
}

TEST_F(MatchTest, ListsWhatIsMissingUnexpectedOrMisshapen) {
  file[1].shape = {5, 8};
  file[2].name = "transformer.h.0.ln_g.weight";
  const std::string message = refusal();
  EXPECT_THAT(message, HasSubstr("missing: transformer.h.0.ln_1.weight."));
  EXPECT_THAT(message, HasSubstr("transformer.wpe.weight [5, 8] (expected [4, 8])"));
  EXPECT_THAT(message, HasSubstr("unexpected: transformer.h.0.ln_g.weight."));
  file.clear();
  EXPECT_THAT(refusal(), HasSubstr("and 12 more"));
}

}  // namespace
}  // namespace stoa::model::huggingface
