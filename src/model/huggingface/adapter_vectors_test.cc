// Adapters with weights by formula on models with weights by formula against logits, losses and gradients
// that PEFT 0.21.2 gave with transformers 5.23, for each base family.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "model/huggingface/adapter_config.h"
#include "model/huggingface/adapter_tensors.h"
#include "model/huggingface/config_json.h"
#include "model/huggingface/formula_weights.h"
#include "nn/low_rank.h"
#include "nn/rescaled.h"

namespace stoa::model::huggingface {
namespace {

namespace fixture = model::testing;
using testing::formula;
using testing::load_formula;

struct AdapterVector {
  const char* id;
  std::string base;                 // config.json
  std::string adapter;              // keys of adapter_config.json besides peft_type
  std::int64_t trained = 0;         // elements; 0: not known
  std::vector<double> logits = {};  // last position, first four
  double sum = 0, loss = 0, grad_norm = 0;
  std::string type = "LORA";
};

std::string model_of(const std::string& type, const std::string& more) {
  return "{\"model_type\":\"" + type +
         "\",\"vocab_size\":32,\"intermediate_size\":24,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
         "\"num_key_value_heads\":2,\"max_position_embeddings\":64,\"bos_token_id\":1,\"eos_token_id\":2,"
         "\"pad_token_id\":0" +
         more + "}";
}

// adapter_config.json of AdapterHub for a model of width 16, without the braces around it.
std::string bottleneck(const std::string& more) {
  return "\"hidden_size\":16,\"config\":{\"reduction_factor\":4," + more + "}";
}

std::vector<AdapterVector> adapter_vectors() {
  const std::string llama = model_of("llama", ",\"hidden_size\":16,\"rms_norm_eps\":1e-5");
  const std::string gpt2 =
      "{\"model_type\":\"gpt2\",\"vocab_size\":32,\"n_embd\":16,\"n_layer\":2,\"n_head\":4,\"n_positions\":"
      "64,"
      "\"bos_token_id\":1,\"eos_token_id\":2}";
  const std::string neox =
      "{\"model_type\":\"gpt_neox\",\"vocab_size\":32,\"hidden_size\":16,\"intermediate_size\":24,"
      "\"num_hidden_layers\":2,\"num_attention_heads\":2,\"rotary_pct\":0.5}";
  const std::string bloom =
      "{\"model_type\":\"bloom\",\"vocab_size\":32,\"n_layer\":2,\"hidden_size\":16,\"n_head\":4}";
  const std::string phi3 =
      model_of("phi3", ",\"hidden_size\":32,\"partial_rotary_factor\":0.5,\"sliding_window\":6");
  return {
      {"lora",
       llama,
       "\"r\":2,\"lora_alpha\":6,\"target_modules\":[\"q_proj\",\"v_proj\",\"down_proj\"]",
       384,
       {3.03038, -1.516076, .9527707, .1490795},
       100.5293,
       3.921356,
       11.53408},
      {"rslora",
       llama,
       "\"r\":2,\"lora_alpha\":6,\"use_rslora\":true,\"target_modules\":\"all-linear\"",
       928,
       {-3.334541, .5358337, 1.340868, 1.514336},
       -51.02308,
       4.398576,
       10.19897},
      {"dora",
       llama,
       "\"r\":2,\"lora_alpha\":4,\"use_dora\":true,\"target_modules\":[\"q_proj\",\"v_proj\"]",
       272,
       {-1.069965, 1.023125, .2549984, -.7844884},
       109.0705,
       3.429221,
       2.204843},
      {"token_rows",
       llama,
       "\"r\":2,\"lora_alpha\":4,\"target_modules\":[\"q_proj\"],\"trainable_token_indices\":[3,5]",
       160,
       {.699448, 2.431414, -3.535483, 1.163628},
       -105.3465,
       3.890897,
       4.4634},
      {"ia3",
       llama,
       "\"target_modules\":[\"k_proj\",\"v_proj\",\"down_proj\"],\"feedforward_modules\":[\"down_proj\"]",
       80,
       {2.797724, -1.616543, -1.082137, .09858438},
       84.32991,
       4.274666,
       .7275779,
       "IA3"},
      {"regular_expression",
       llama,
       "\"r\":2,\"lora_alpha\":4,\"target_modules\":\".*layers\\\\.1\\\\.self_attn\\\\.(q|v)_proj\"",
       112,
       {1.961703, -.7777307, -.6224949, -.3462445},
       97.62771,
       3.840919,
       1.218137},
      {"seq_bn",
       llama,
       bottleneck("\"original_ln_before\":true"),
       296,
       {-1.558458, 2.123728, -1.262076, -.1015893},
       75.65347,
       0,
       0,
       "BOTTLENECK"},
      {"double_seq_bn",
       llama,
       bottleneck("\"mh_adapter\":true,\"non_linearity\":\"swish\""),
       592,
       {-.8573903, .08392945, -1.45212, .2857364},
       86.88635,
       0,
       0,
       "BOTTLENECK"},
      {"par_bn",
       llama,
       bottleneck("\"is_parallel\":true,\"scaling\":4.0"),
       296,
       {-1.127897, 2.727764, -.8253663, .7320389},
       -39.26189,
       0,
       0,
       "BOTTLENECK"},
      {"gpt2_bias_all",
       gpt2,
       "\"r\":2,\"lora_alpha\":4,\"bias\":\"all\",\"target_modules\":[\"c_attn\"]",
       0,
       {.3448134, .06463807, -1.323155, .9451961},
       65.64848},
      {"gpt_neox",
       neox,
       "\"r\":2,\"lora_alpha\":4,\"target_modules\":[\"query_key_value\"]",
       0,
       {-2.931393, -.1345995, 1.834113, 1.010045},
       -14.74177},
      {"bloom",
       bloom,
       "\"r\":2,\"lora_alpha\":4,\"target_modules\":[\"query_key_value\"]",
       0,
       {.73183, -.6173353, 1.058876, .394472},
       4.213475},
      {"phi3",
       phi3,
       "\"r\":2,\"lora_alpha\":4,\"target_modules\":[\"qkv_proj\",\"gate_up_proj\"]",
       0,
       {2.600504, -.9332858, 1.175423, 1.195641},
       -11.16621},
      {"mixtral",
       model_of("mixtral",
                ",\"hidden_size\":16,\"num_local_experts\":4,\"num_experts_per_tok\":2,"
                "\"rms_norm_eps\":1e-5"),
       "\"r\":2,\"lora_alpha\":4,\"target_modules\":[\"q_proj\",\"v_proj\"]",
       0,
       {-1.87245, .2572898, .611595, -.4550638},
       -26.78474},
      {"prompt",
       llama,
       "\"num_virtual_tokens\":3",
       48,
       {2.609348, -.9003576, -1.396242, -.1903768},
       -102.6283,
       4.259566,
       3.352635,
       "PROMPT_TUNING"},
      {"p_tuning_mlp",
       llama,
       "\"num_virtual_tokens\":3,\"encoder_hidden_size\":10",
       504,
       {1.736501, -.858309, -.540274, -.4519906},
       81.88187,
       3.972323,
       3.507346,
       "P_TUNING"},
      {"p_tuning_lstm",
       llama,
       "\"num_virtual_tokens\":3,\"encoder_hidden_size\":10,\"encoder_reparameterization_type\":\"LSTM\","
       "\"encoder_num_layers\":2",
       5604,
       {2.103091, -1.214927, -.9689111, -.1708778},
       175.563,
       3.617153,
       2.720279,
       "P_TUNING"},
      {"prefix",
       llama,
       "\"num_virtual_tokens\":3",
       96,
       {2.871449, -1.684876, -.9217519, -.114325},
       56.06478,
       4.111039,
       .5046357,
       "PREFIX_TUNING"},
      {"gpt2_prefix",
       gpt2,
       "\"num_virtual_tokens\":3",
       0,
       {-1.850083, -1.298953, -1.053096, -.4464633},
       -61.31612,
       0,
       0,
       "PREFIX_TUNING"},
  };
}

// The description of the adapter on its model, as PEFT's file says it.
ModelSpec adapted_model(const AdapterVector& vector, const ModelDescription& base) {
  ModelConfig config = base.config;
  for (double* p : {&config.hidden_dropout, &config.attention_dropout, &config.embedding_dropout})
    *p = 0;  // evaluation mode
  const std::string type = vector.type == "BOTTLENECK" ? "" : "\"peft_type\":\"" + vector.type + "\",";
  config.peft = read_adapter_config("{" + type + vector.adapter + "}").config;
  config.peft.base_model_type = base.family->type;
  return resolve_model(config);
}

void load_adapter_formula(fixture::Model& model, const ModelSpec& spec) {
  std::vector<AdapterTensor> all = adapter_tensors(spec);
  std::erase_if(all, [](const auto& tensor) { return tensor.computed; });
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name() < b.name(); });
  for (std::size_t t = 0; t < all.size(); ++t) {
    std::vector<double> file(static_cast<std::size_t>(all[t].shape().elements()));
    const bool near_one =
        all[t].name().ends_with(nn::LowRank::kMagnitude) || all[t].name().ends_with(nn::Rescaled::kSuffix);
    for (std::size_t i = 0; i < file.size(); ++i) {
      file[i] = formula(static_cast<std::uint32_t>(t), static_cast<std::uint32_t>(i));
      if (near_one) file[i] = 1 + file[i] / 2;
    }
    std::map<std::string, std::vector<double>> parts;
    scatter_adapter(all[t], DType::kF64, reinterpret_cast<const std::byte*>(file.data()),
                    [&](const CanonicalTensor& part) {
                      auto& out = parts[part.name];
                      out.resize(static_cast<std::size_t>(part.shape.elements()));
                      return reinterpret_cast<std::byte*>(out.data());
                    });
    for (const auto& [name, values] : parts) {
      const TensorView view = model.canonical_view(name);
      for (std::size_t i = 0; i < values.size(); ++i)
        fixture::Model::set(view, static_cast<std::int64_t>(i), values[i]);
    }
  }
}

class AdapterVectors : public ::testing::TestWithParam<AdapterVector> {};

void check_adapter(const AdapterVector& expected, nn::Precision precision, double tolerance,
                   fixture::Machine machine) {
  const ModelDescription description = read_config(expected.base);
  const ModelSpec spec = adapted_model(expected, description);
  const std::int64_t in_front = spec.adapters->virtual_tokens(), length = 12 + in_front;
  ChunkOptions o;
  o.layers = 2;
  o.precision = precision;
  o.tokens = length;
  o.positions = length;
  fixture::Model model(spec, o, std::move(machine), length);
  model.initialize_all(1);  // padding rows
  load_formula(model, spec, *description.family);
  load_adapter_formula(model, spec);
  if (expected.trained > 0) {
    EXPECT_EQ(trained_parameter_count(spec), expected.trained);
  }
  std::vector<std::int32_t> ids{3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7};
  std::vector<std::int32_t> labels(ids.begin() + 1, ids.end());
  labels.push_back(0);
  for (std::int64_t i = in_front; i-- > 0;) {
    labels.insert(labels.begin(), i + 1 < in_front ? 0 : ids.front());
    ids.insert(ids.begin(), static_cast<std::int32_t>(spec.vocabulary + i));
  }
  fixture::Batch batch(1, ids, labels);
  batch.mask.back() = 0;
  // PEFT predicts the first token after a prompt; a prefix is no part of the text.
  const bool prefix = spec.adapters->prefix().has_value();
  for (std::int64_t i = 0; i < in_front; ++i)
    batch.mask[static_cast<std::size_t>(i)] = !prefix && i + 1 == in_front ? 1 : 0;
  auto logits = model.logits(batch);
  if (prefix) logits.erase(logits.begin(), logits.begin() + in_front * 32);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(logits[logits.size() - 32 + i], expected.logits[i], tolerance);
  double sum = 0;
  for (const double logit : logits) sum += logit;
  EXPECT_NEAR(sum, expected.sum, 20 * tolerance + 1e-5 * std::abs(expected.sum));
  const double loss = model.step(batch);
  if (expected.loss == 0) return;
  EXPECT_NEAR(loss, expected.loss, tolerance);
  double squares = 0;
  for (const auto& tensor : canonical_tensors(spec))
    for (const double g : model.canonical(tensor.name, true)) squares += g * g;
  EXPECT_NEAR(std::sqrt(squares), expected.grad_norm, tolerance * expected.grad_norm);
}

TEST_P(AdapterVectors, Fp64) { check_adapter(GetParam(), fixture::fp64(), 1e-5, fixture::reference()); }
TEST_P(AdapterVectors, CpuFp32) {
  check_adapter(GetParam(), {DType::kF32, DType::kF32}, 5e-5, fixture::cpu());
}

// What is written means the same adapter when it is read again.
TEST_P(AdapterVectors, ConfigurationsSurvive) {
  const ModelDescription description = read_config(GetParam().base);
  const ModelSpec spec = adapted_model(GetParam(), description);
  ModelConfig again = description.config;
  const AdapterDescription read = read_adapter_config(write_adapter_config(spec, "some/model"));
  EXPECT_EQ(read.base, "some/model");
  again.peft = read.config;
  EXPECT_EQ(again.peft.peft_scheme, spec.config.peft.peft_scheme);
  again.peft.base_model_type = description.family->type;
  const ModelSpec other = resolve_model(again);
  const auto ours = adapter_tensors(spec), theirs = adapter_tensors(other);
  ASSERT_EQ(ours.size(), theirs.size());
  for (std::size_t i = 0; i < ours.size(); ++i) {
    EXPECT_EQ(ours[i].name(), theirs[i].name());
    EXPECT_EQ(ours[i].shape(), theirs[i].shape());
  }
  for (std::size_t m = 0; m < spec.adapters->modules().size(); ++m)
    EXPECT_EQ(spec.adapters->modules()[m].scale, other.adapters->modules()[m].scale);
}

INSTANTIATE_TEST_SUITE_P(Peft, AdapterVectors, ::testing::ValuesIn(adapter_vectors()),
                         [](const auto& test) { return std::string(test.param.id); });

TEST(AdapterConfig, RefusesWhatItDoesNotUnderstand) {
  const auto message = [](const std::string& json) {
    try {
      read_adapter_config(json);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("[]"), "adapter_config.json is not a JSON object");
  EXPECT_EQ(message("{\"peft_type\":\"LORE\"}"),
            "adapter_config.json: peft_type 'LORE' is not supported (did you mean 'LORA'?); expected LORA, "
            "IA3, P_TUNING, "
            "PROMPT_TUNING or PREFIX_TUNING");
  EXPECT_NE(message("{\"peft_type\":\"LORA\",\"r\":0}").find("r"), std::string::npos);
  EXPECT_EQ(message("{\"peft_type\":\"LORA\",\"r\":4,\"lora_alpha\":0}"),
            "adapter_config.json: lora_alpha 0 switches the adapter off: expected a number above 0");
  EXPECT_NE(message("{\"peft_type\":\"LORA\",\"lora_bias\":true}").find("lora_bias"), std::string::npos);
  for (const char* other :
       {"alora_invocation_tokens\":[4,7]", "arrow_config\":{\"top_k\":2}", "use_qalora\":true"})
    EXPECT_THAT(message(fmt::format("{{\"peft_type\":\"LORA\",\"{}}}", other)),
                ::testing::HasSubstr("not supported"))
        << other;
  EXPECT_NE(message("{\"peft_type\":\"LORA\",\"init_lora_weights\":\"pissa\"}").find("pissa"),
            std::string::npos);
}

TEST(AdapterConfig, RefusesOtherBottlenecks) {
  const auto message = [](const std::string& json) {
    try {
      read_adapter_config("{\"hidden_size\":16,\"config\":{" + json + "}}");
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message("\"original_ln_before\":true"), "no error");
  for (const auto& [json, text] : std::vector<std::pair<std::string, std::string>>{
           {"\"mh_adapter\":true,\"is_parallel\":true", "is none of seq_bn"},
           {"\"original_ln_before\":true,\"inv_adapter\":\"nice\"", "inv_adapter"},
           {"\"original_ln_before\":true,\"use_gating\":true", "use_gating"},
           {"\"original_ln_before\":true,\"ln_after\":true", "ln_after"},
           {"\"original_ln_before\":true,\"original_ln_after\":false", "original_ln_after"},
           {"\"original_ln_before\":true,\"scaling\":\"learned\"", "expected one number"},
           {"\"original_ln_before\":true,\"reduction_factor\":{\"default\":16}", "expected one number"},
           {"\"original_ln_before\":true,\"non_linearity\":\"leakyrelu\"", "expected relu"}})
    EXPECT_NE(message(json).find(text), std::string::npos) << message(json);
}

TEST(AdapterPlan, FactorsOfInputsAreOfAWholeMatrix) {
  const auto message = [](const std::vector<std::string>& targets, const std::vector<std::string>& inputs) {
    ModelConfig config = read_config(adapter_vectors().front().base).config;
    config.peft.peft_scheme = PeftScheme::kIa3;
    config.peft.ia3.target_modules = targets;
    config.peft.ia3.feedforward_modules = inputs;
    try {
      trained_parameter_count(resolve_model(config));
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message({}, {}), "no error");
  EXPECT_EQ(message({"o_proj", "down_proj"}, {"o_proj", "down_proj"}), "no error");
  EXPECT_NE(message({"q_proj"}, {"q_proj"}).find("its inputs cannot be scaled alone"), std::string::npos);
  EXPECT_NE(message({"k_proj"}, {"down_proj"}).find("is not among target_modules"), std::string::npos);
  EXPECT_NE(message({"k_prj"}, {}).find("did you mean 'k_proj'"), std::string::npos);
}

TEST(AdapterPlan, NamesTheNearestTarget) {
  const auto message = [](const std::string& target) {
    ModelConfig config = read_config(adapter_vectors().front().base).config;
    config.peft.peft_scheme = PeftScheme::kLora;
    config.peft.lora.target_modules = {target};
    try {
      resolve_model(config);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(
      message("q_prj"),
      "peft.lora_tuning.target_modules: 'q_prj' is no linear layer of this model (did you mean 'q_proj'?); "
      "it has down_proj, embed_tokens, gate_proj, k_proj, lm_head, o_proj, q_proj, up_proj, v_proj");
  EXPECT_NE(message("(q").find("regular expression"), std::string::npos);
  EXPECT_EQ(message("*.1.self_attn.q_proj"), "no error");
  EXPECT_EQ(message("attention_qkv"), "no error");
}

TEST(AdapterPlan, BottlenecksOfGptJReadOneBranch) {
  const auto message = [](BottleneckType type) {
    ModelConfig config =
        read_config(
            R"({"model_type":"gptj","vocab_size":32,"n_embd":16,"n_layer":2,"n_head":2,"n_positions":8,"rotary_dim":4})")
            .config;
    config.peft.peft_scheme = PeftScheme::kAdapter;
    config.peft.base_model_type = "gptj";
    config.peft.bottleneck.type = type;
    config.peft.bottleneck.adapter_dim = 4;
    try {
      resolve_model(config);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  EXPECT_EQ(message(BottleneckType::kDoubleSequential), "no error");
  for (const auto type : {BottleneckType::kSequential, BottleneckType::kParallel})
    EXPECT_NE(message(type).find("take double_seq_bn"), std::string::npos) << message(type);
}

}  // namespace
}  // namespace stoa::model::huggingface
