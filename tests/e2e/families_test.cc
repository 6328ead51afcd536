// Every family of decoders through the whole program: train, continue text, score, evaluate, export, compare,
// and the plan of it all. What its maths are is tested beside the sources; here, that nothing on the way asks
// which family it is.
#include "base/file.h"
#include "workplace.h"

namespace stoa::e2e {
namespace {

struct FamilyCase {
  const char* type;  // model_type that its checkpoints have
  Arguments overrides;
};

void PrintTo(const FamilyCase& family, std::ostream* out) { *out << family.type; }

const Arguments kLlama{"model.position_embedding_type=rope", "model.normalization=rmsnorm",
                       "model.activation=swiglu", "model.bias=none",
                       "model.share_embeddings_and_output_weights=false"};

std::vector<FamilyCase> cases() {
  return {
      {"gpt_neox",
       {"model.position_embedding_type=rope", "model.rotary_percentage=0.25",
        "model.use_parallel_residual=true", "model.activation=gelu",
        "model.share_embeddings_and_output_weights=false"}},
      {"phi3", kLlama + Arguments{"model.rotary_percentage=0.5", "model.window_size=8"}},
      {"olmo2", kLlama + Arguments{"model.norm_placement=after", "model.qk_layernorm=true",
                                   "model.qk_layernorm_all_heads=true"}},
      {"deepseek_v3",
       kLlama + Arguments{"model.multi_latent_attention=true", "model.q_lora_rank=12",
                          "model.kv_lora_rank=10", "model.qk_head_dim=8", "model.qk_pos_emb_head_dim=4",
                          "model.v_head_dim=8", "model.num_moe_experts=8", "model.moe_router_topk=2",
                          "model.moe_ffn_hidden_size=16", "model.moe_shared_expert_intermediate_size=16",
                          "model.moe_dense_layers=[0]", "model.moe_router_score_function=sigmoid",
                          "model.moe_router_num_groups=4", "model.moe_router_group_topk=2",
                          "model.moe_router_topk_scaling_factor=2.5",
                          "model.moe_router_enable_expert_bias=true", "model.layernorm_epsilon=1e-6"}},
      {"gemma2",
       {"model.position_embedding_type=rope", "model.normalization=rmsnorm", "model.norm_placement=both",
        "model.activation=geglu_tanh", "model.bias=none", "model.window_size=8",
        "model.window_attn_skip_freq=2", "model.query_pre_attn_scalar=16", "model.attn_logit_softcapping=50",
        "model.final_logit_softcapping=30", "model.apply_embedding_scaling=true"}},
      {"gemma3_text",
       {"model.position_embedding_type=rope", "model.normalization=rmsnorm", "model.norm_placement=both",
        "model.activation=geglu_tanh", "model.bias=none", "model.window_size=8",
        "model.window_attn_skip_freq=2", "model.rope_local_base_freq=100", "model.query_pre_attn_scalar=16",
        "model.qk_layernorm=true", "model.apply_embedding_scaling=true"}},
      {"qwen3_next", kLlama + Arguments{"model.rotary_percentage=0.5", "model.qk_layernorm=true",
                                        "model.attention_output_gate=true", "model.layernorm_epsilon=1e-6",
                                        "model.linear_attention_freq=2", "model.linear_num_key_heads=2",
                                        "model.linear_num_value_heads=4", "model.linear_key_head_dim=8",
                                        "model.linear_value_head_dim=8", "model.num_moe_experts=4",
                                        "model.moe_router_topk=2", "model.moe_ffn_hidden_size=16",
                                        "model.moe_shared_expert_intermediate_size=16",
                                        "model.moe_shared_expert_gate=true"}},
      {"qwen3_5_text", kLlama + Arguments{"model.rotary_percentage=0.5", "model.qk_layernorm=true",
                                          "model.attention_output_gate=true", "model.layernorm_epsilon=1e-6",
                                          "model.linear_attention_layers=[0]", "model.linear_num_key_heads=2",
                                          "model.linear_num_value_heads=2", "model.linear_key_head_dim=8",
                                          "model.linear_value_head_dim=8"}},
      {"granite", kLlama + Arguments{"model.embedding_multiplier=4", "model.residual_multiplier=0.5",
                                     "model.softmax_scale=0.2", "model.logit_scale=0.5"}},
      {"cohere2",
       {"model.position_embedding_type=rope", "model.norm_bias=false", "model.use_parallel_residual=true",
        "model.num_ln_in_parallel_attn=1", "model.activation=swiglu", "model.bias=none",
        "model.window_size=8", "model.window_attn_skip_freq=2", "model.no_rope_layers=[1]",
        "model.logit_scale=0.5"}},
      {"phi",
       {"model.position_embedding_type=rope", "model.rotary_percentage=0.5",
        "model.use_parallel_residual=true", "model.num_ln_in_parallel_attn=1", "model.lm_head_bias=true",
        "model.share_embeddings_and_output_weights=false"}},
      {"opt", {"model.first_position=2", "model.activation=relu"}},
      {"qwen2_moe",
       kLlama + Arguments{"model.bias=qkv", "model.num_moe_experts=4", "model.moe_ffn_hidden_size=16",
                          "model.moe_shared_expert_intermediate_size=24", "model.moe_shared_expert_gate=true",
                          "model.layernorm_epsilon=1e-6"}},
      {"bloom",
       {"model.position_embedding_type=alibi", "model.embedding_layernorm=true",
        "model.activation=gelu_tanh"}},
  };
}

class Family : public Workplace, public ::testing::WithParamInterface<FamilyCase> {};

TEST_P(Family, GoesThroughEveryCommand) {
  const Arguments model = GetParam().overrides + Arguments{"model.num_attention_heads=4"};
  stoa_ok(train("run", model + Arguments{"trainer.max_steps=30", "model.optim.lr=3e-3"}));
  const auto steps = metrics("run");
  EXPECT_LT(steps.at(30)["loss"].get<double>(), steps.at(1)["loss"].get<double>() - 0.1);
  EXPECT_EQ(
      nlohmann::json::parse(read_text(path("run") / "checkpoints/latest/model/config.json"))["model_type"],
      GetParam().type);

  const auto generated =
      json_of({"generate", "run", "--prompt", "the stone", "--max-tokens", "6", "--greedy", "--json"});
  ASSERT_EQ(generated["ids"].size(), 6u);
  write_text(path("lines.txt"), "the stone walks by the sea and the bread\n");
  const std::string scores = stoa_ok({"score", "run", "lines.txt", "--dtype", "fp32"}).out;
  const auto perplexity = json_of({"eval", "perplexity", "run", "--text", "lines.txt", "--json"});
  EXPECT_GT(perplexity["tokens"].get<int>(), 0) << perplexity;

  stoa_ok({"checkpoint", "export", "run", "--dtype", "fp32", "--output", "exported"});
  EXPECT_EQ(stoa_ok({"score", "exported", "lines.txt", "--dtype", "fp32"}).out, scores);
  // The same run once more is the same.
  stoa_ok(train("again", model + Arguments{"trainer.max_steps=30", "model.optim.lr=3e-3"}));
  expect_same("run", "again");

  const Arguments planned = micro_model() + Arguments{"model.vocab_size=300"} + model;
  const auto plan = json_of(Arguments{"plan", "memory"} + planned + Arguments{"--json"});
  const auto bench = json_of(Arguments{"bench", "train"} + planned + Arguments{"--steps", "1", "--json"});
  EXPECT_EQ(plan["total_bytes"], bench["arena_peak_bytes"]);
}

INSTANTIATE_TEST_SUITE_P(Decoders, Family, ::testing::ValuesIn(cases()),
                         [](const auto& test) { return std::string(test.param.type); });

}  // namespace
}  // namespace stoa::e2e
