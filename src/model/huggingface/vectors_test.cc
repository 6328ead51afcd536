// Whole models with weights by formula against logits, losses and gradients that transformers 5.23 gave (and,
// for the same directories, 4.57): reference/model-families.md section 4.
#include <gtest/gtest.h>

#include <cmath>

#include "model/huggingface/config_json.h"
#include "model/huggingface/formula_weights.h"

namespace stoa::model::huggingface {
namespace {

namespace fixture = model::testing;
using fixture::Batch;
using fixture::Model;
using testing::formula;
using testing::load_formula;

struct Vector {
  const char* id;
  std::string config;
  std::vector<double> logits;  // last position, first four
  double sum, loss, grad_norm;
  std::vector<double> embedding;  // gradient of row 3, first three
  std::size_t tensors;
  std::int64_t elements;
};

std::string base(const std::string& type, const std::string& more) {
  return "{\"model_type\":\"" + type +
         "\",\"vocab_size\":32,\"intermediate_size\":24,\"num_hidden_layers\":2,\"num_attention_heads\":4,"
         "\"num_key_value_heads\":2,\"max_position_embeddings\":64,\"bos_token_id\":1,\"eos_token_id\":2,"
         "\"pad_token_id\":0" +
         more + "}";
}

std::string neox(const std::string& more) {
  return "{\"model_type\":\"gpt_neox\",\"vocab_size\":32,\"hidden_size\":16,\"intermediate_size\":24,"
         "\"num_hidden_layers\":2" +
         more + "}";
}

std::string bloom(const std::string& more) {
  return "{\"model_type\":\"bloom\",\"vocab_size\":32,\"n_layer\":2" + more + "}";
}

std::vector<Vector> vectors() {
  const std::string gemma = ",\"head_dim\":6,\"sliding_window\":4,\"query_pre_attn_scalar\":9";
  const std::string longrope =
      ",\"rope_scaling\":{\"type\":\"longrope\",\"short_factor\":[1,1.1,1.3,1.7],\"long_factor\":[1.5,2,4,8]"
      "}";
  const std::string deepseek =
      ",\"n_routed_experts\":8,\"num_experts_per_tok\":2,\"moe_intermediate_size\":8,\"n_group\":4,"
      "\"topk_group\":2,\"first_k_dense_replace\":1,\"kv_lora_rank\":8,\"qk_nope_head_dim\":6,"
      "\"v_head_dim\":5";
  const std::string h16 = ",\"hidden_size\":16", h32 = ",\"hidden_size\":32";
  const std::string eight =
      "{\"model_type\":\"llama\",\"vocab_size\":32,\"hidden_size\":16,\"intermediate_size\":24,\"num_hidden_"
      "layers\":2,"
      "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"max_position_embeddings\":8,\"rms_norm_eps\":1e-"
      "6,"
      "\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"dynamic\",\"factor\":2.0}}";
  return {
      {"gpt2",
       "{\"model_type\":\"gpt2\",\"vocab_size\":32,\"n_embd\":16,\"n_layer\":2,\"n_head\":4,\"n_positions\":"
       "64,"
       "\"bos_token_id\":1,\"eos_token_id\":2}",
       {-1.507696, -1.073559, .03756065, -.2487957},
       -75.34037,
       4.587727,
       4.298896,
       {-.0375997, .1629979, -.0748729},
       28,
       8128},
      {"llama",
       base("llama", h16 + ",\"rms_norm_eps\":1e-5"),
       {2.664732, -1.390915, -.9835363, -.1146943},
       99.0652,
       4.33672,
       10.35087,
       {.3695292, -.5758787, .2784304},
       21,
       4944},
      {"llama_tied",
       base("llama", h16 + ",\"head_dim\":6,\"tie_word_embeddings\":true"),
       {-2.194523, 1.532041, -1.341775, .9728522},
       48.55996,
       3.879436,
       5.890293,
       {-.0405515, .0850656, .0032949},
       20,
       5200},
      {"llama_llama3",
       base("llama",
            h32 + ",\"rms_norm_eps\":1e-5,\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\","
                  "\"factor\":8.0,\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
                  "\"original_max_position_embeddings\":16}"),
       {1.590749, .6370412, -1.604412, .7919486},
       10.88771,
       5.443148,
       9.536966,
       {.5789276, .1347694, .5984581},
       21,
       12960},
      {"llama_linear",
       base("llama", h16 + ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}"),
       {-.5043977, -.6615933, 1.046277, -.7853452},
       130.1326,
       4.21109,
       8.471854,
       {.0707325, -1.003121, -.6008354},
       21,
       4944},
      {"llama_dynamic",
       eight,
       {2.668234, -1.371184, -.945436, -.1030816},
       98.70828,
       4.323861,
       10.55143,
       {.3578014, -.5763946, .2962044},
       21,
       4944},
      {"llama_yarn",
       base("llama", h32 +
                         ",\"rope_parameters\":{\"rope_theta\":10000.0,\"rope_type\":\"yarn\",\"factor\":4.0,"
                         "\"original_max_position_embeddings\":16}"),
       {1.781364, .8464525, -1.532916, .2530938},
       6.621273,
       5.57866,
       14.15509,
       {.0554776, -.2613483, 1.080869},
       21,
       12960},
      {"mistral",
       base("mistral", h16 + ",\"sliding_window\":4,\"rms_norm_eps\":1e-5"),
       {1.517243, .01027101, -.9663758, .1604577},
       41.33279,
       4.362663,
       6.085556,
       {.0331571, -.1281425, -.0001475},
       21,
       4944},
      {"qwen2",
       base("qwen2", h16 + ",\"tie_word_embeddings\":true,\"rope_theta\":1000000.0"),
       {-1.225366, -.4089763, 2.30007, -1.879968},
       6.083586,
       3.677108,
       5.923118,
       {.2586044, .0813694, -.2902974},
       26,
       4496},
      {"qwen2_sw",
       base("qwen2", h16 + ",\"use_sliding_window\":true,\"sliding_window\":4,\"max_window_layers\":1"),
       {-2.116974, .953632, .4627965, 2.317156},
       11.0819,
       4.053469,
       7.804181,
       {.0831516, -.0754926, -.0198272},
       27,
       5008},
      {"qwen3",
       base("qwen3",
            h16 + ",\"head_dim\":6,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":1000000.0}"),
       {.1495413, -1.260262, -1.827231, -1.111123},
       -64.89892,
       4.745308,
       5.83554,
       {-.1151729, -.1669449, -.005818},
       25,
       5736},
      {"neox",
       neox(",\"num_attention_heads\":2,\"rotary_pct\":0.5"),
       {-2.185081, .2410405, 1.750554, 1.021346},
       5.670595,
       3.794791,
       2.512914,
       {-.103551, .1623083, .1083543},
       28,
       4976},
      {"neox_serial",
       neox(",\"num_attention_heads\":1,\"rotary_pct\":0.25,\"use_parallel_residual\":false"),
       {-1.326083, .08000325, 1.484223, .9020616},
       -94.90314,
       4.344097,
       3.06192,
       {-.075052, -.0185234, .0731293},
       28,
       4976},
      {"phi3",
       base("phi3", h32 + ",\"partial_rotary_factor\":0.5,\"sliding_window\":6"),
       {-2.046503, 1.185665, 1.057068, .9748414},
       -20.15403,
       3.649651,
       14.31309,
       {.2444074, -.4407054, -.00108},
       15,
       12960},
      {"phi3_short",
       base("phi3", h32 + longrope + ",\"original_max_position_embeddings\":16"),
       {-.8663462, -1.065954, -.1496146, .06042394},
       11.31997,
       3.849287,
       9.293236,
       {.0075015, .1055497, -.16651},
       15,
       12960},
      {"phi3_long",
       base("phi3", h32 + longrope + ",\"original_max_position_embeddings\":8"),
       {-1.87573, -.1910509, 1.632921, -.6946985},
       4.91465,
       3.85425,
       14.19422,
       {.174802, -.3057851, 1.365115},
       15,
       12960},
      {"gemma2",
       base("gemma2", h16 + gemma + ",\"attn_logit_softcapping\":2.0,\"final_logit_softcapping\":3.0"),
       {-.4563056, .0240462, 1.146475, .7953002},
       53.48492,
       3.612435,
       3.238769,
       {-.1895801, -.0888099, -.0021121},
       24,
       5264},
      {"gemma3",
       base("gemma3_text",
            h16 + gemma +
                ",\"sliding_window_pattern\":2,\"rope_theta\":1000000.0,\"rope_local_base_freq\":100.0,"
                "\"rope_scaling\":{\"rope_type\":\"linear\",\"factor\":8.0}"),
       {1.245188, .2514947, 1.968496, 1.027935},
       49.99458,
       4.51656,
       5.300573,
       {.0659075, -.1960963, .037546},
       28,
       5288},
      {"bloom",
       bloom(",\"hidden_size\":16,\"n_head\":4"),
       {2.64694, -1.624581, 1.878011, 1.702547},
       88.70831,
       4.393932,
       2.859095,
       {.1253046, .0669767, -.0808003},
       29,
       7136},
      {"bloom_6h",
       bloom(",\"hidden_size\":24,\"n_head\":6"),
       {.5002187, -1.439342, 1.28002, .5849681},
       151.099,
       4.163265,
       4.157994,
       {.113159, -.040818, .0199927},
       29,
       15312},
      {"deepseek_v3",
       base("deepseek_v3", h16 + deepseek + ",\"q_lora_rank\":6,\"qk_rope_head_dim\":4"),
       {-.7272305, 1.498886, -.2371096, 2.183673},
       -25.1716,
       4.171135,
       5.836077,
       {-.1179479, .1117055, .0896332},
       53,
       8276},
      {"deepseek_v3_yarn",
       base("deepseek_v3", h16 + deepseek +
                               ",\"q_lora_rank\":null,\"qk_rope_head_dim\":8,\"norm_topk_prob\":false,"
                               "\"rope_scaling\":{\"type\":\"yarn\",\"factor\":4.0,\"mscale\":1.0,"
                               "\"mscale_all_dim\":0.5,\"original_max_position_embeddings\":16}"),
       {.8404561, -.06563419, -2.516801, 1.107029},
       72.91008,
       4.019863,
       7.930255,
       {.340927, -.02256, -.3715298},
       49,
       9512},
      {"olmo2",
       base("olmo2", h16 + ",\"rope_theta\":500000.0"),
       {-.8060786, .9701433, -.8424287, 1.509357},
       79.39788,
       3.784873,
       4.275487,
       {.050594, .0079905, .1207632},
       25,
       4992},
  };
}

class Vectors : public ::testing::TestWithParam<Vector> {};

void check_vector(const Vector& expected, nn::Precision precision, double tolerance,
                  fixture::Machine machine) {
  ModelDescription description = read_config(expected.config);
  for (double* p : {&description.config.hidden_dropout, &description.config.attention_dropout,
                    &description.config.embedding_dropout})
    *p = 0;  // evaluation mode
  const ModelSpec spec = resolve_model(description.config);
  ChunkOptions o;
  o.layers = 2;
  o.precision = precision;
  o.tokens = 12;
  o.positions = 12;
  Model model(spec, o, std::move(machine), 12);
  model.initialize_all(1);  // padding rows
  const auto all = tensors(spec, *description.family);
  EXPECT_EQ(all.size(), expected.tensors);
  std::int64_t elements = 0;
  for (const auto& tensor : all) elements += tensor.shape.elements();
  EXPECT_EQ(elements, expected.elements);
  EXPECT_EQ(parameter_count(spec), expected.elements);
  load_formula(model, spec, *description.family);

  const std::vector<std::int32_t> ids{3, 17, 5, 29, 11, 2, 23, 8, 14, 9, 30, 7};
  std::vector<std::int32_t> labels(ids.begin() + 1, ids.end());
  labels.push_back(0);
  Batch batch(1, ids, labels);
  batch.mask.back() = 0;
  const auto logits = model.logits(batch);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_NEAR(logits[11 * 32 + i], expected.logits[i], tolerance);
  double sum = 0;
  for (const double logit : logits) sum += logit;
  EXPECT_NEAR(sum, expected.sum, 20 * tolerance + 1e-5 * std::abs(expected.sum));

  EXPECT_NEAR(model.step(batch), expected.loss, tolerance);
  double squares = 0;
  for (const auto& tensor : canonical_tensors(spec))
    if (!tensor.name.ends_with(".expert_bias"))  // a buffer there
      for (const double g : model.canonical(tensor.name, true)) squares += g * g;
  EXPECT_NEAR(std::sqrt(squares), expected.grad_norm, tolerance * expected.grad_norm);
  const auto embedding = model.canonical("embedding.tokens.weight", true);
  for (std::size_t i = 0; i < 3; ++i)
    EXPECT_NEAR(embedding[3 * static_cast<std::size_t>(spec.config.hidden_size) + i], expected.embedding[i],
                tolerance);
}

TEST_P(Vectors, Fp64) { check_vector(GetParam(), fixture::fp64(), 1e-5, fixture::reference()); }
TEST_P(Vectors, Fp32) { check_vector(GetParam(), {DType::kF32, DType::kF32}, 2e-5, fixture::reference()); }
TEST_P(Vectors, CpuFp32) { check_vector(GetParam(), {DType::kF32, DType::kF32}, 2e-5, fixture::cpu()); }

std::string name_of_vector(const ::testing::TestParamInfo<Vector>& test) { return test.param.id; }
INSTANTIATE_TEST_SUITE_P(Families, Vectors, ::testing::ValuesIn(vectors()), name_of_vector);

TEST(Formula, HasTheCheckValues) {
  EXPECT_NEAR(formula(0, 0), -.2253343463, 1e-9);
  EXPECT_NEAR(formula(7, 1), -.1396108866, 1e-9);
  EXPECT_NEAR(formula(3, 100000), .4661403894, 1e-9);
}

}  // namespace
}  // namespace stoa::model::huggingface
