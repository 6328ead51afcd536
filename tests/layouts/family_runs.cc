#include "family_runs.h"

#include "base/error.h"
#include "schedule/generators.h"

namespace stoa::layouts {
namespace {

TestRun gpt() {
  TestRun run = tiny_run();
  run.steps = 3;
  run.rows = 4;
  return run;
}

// Two rows a microbatch, and a step that still fills four stages.
void in_pairs(TestRun& run) {
  run.micro_batch = 2;
  run.rows = 8;
}

TestRun llama() {
  TestRun run = gpt();
  model::ModelConfig& c = run.config;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.activation = model::Activation::kSwiglu;
  c.bias = model::BiasKind::kNone;
  c.ffn_hidden_size = 24;
  c.share_embeddings_and_output_weights = false;
  return run;
}

TestRun with_experts(TestRun run) {
  run.config.moe.num_moe_experts = 4;
  run.config.moe.moe_ffn_hidden_size = 12;
  return run;
}

TestRun multipliers() {
  TestRun run = llama();
  run.config.embedding_multiplier = 3;
  run.config.residual_multiplier = 0.4;
  run.config.softmax_scale = 0.7;
  run.config.logit_scale = 0.6;
  return run;
}

TestRun multipliers_and_experts() {
  TestRun run = with_experts(multipliers());
  run.config.share_embeddings_and_output_weights = true;
  return run;
}

TestRun one_norm_for_both_branches() {
  TestRun run = gpt();
  run.config.use_parallel_residual = true;
  run.config.num_ln_in_parallel_attn = 1;
  run.config.norm_bias = false;
  run.config.residual_multiplier = 0.7;
  return run;
}

TestRun norms_without_parameters() {
  TestRun run = gpt();
  run.config.norm_weight = run.config.norm_bias = false;
  return run;
}

TestRun first_position_and_head_bias() {
  TestRun run = gpt();
  run.config.first_position = 2;
  run.config.lm_head_bias = true;
  return run;
}

TestRun norms_after_rotation() {
  TestRun run = llama();
  run.config.qk_layernorm = run.config.qk_layernorm_after_rope = true;
  run.config.no_rope_layers = {1, 2};
  run.config.window_size = 5;
  run.config.window_layers = {0, 2};
  run.packed = true;
  in_pairs(run);
  return run;
}

TestRun gated_shared_expert() {
  TestRun run = with_experts(llama());
  run.config.moe.moe_shared_expert_intermediate_size = 8;
  run.config.moe.moe_shared_expert_gate = true;
  run.config.residual_multiplier = 0.7;
  return run;
}

TestRun encoder() {
  TestRun run = gpt();
  model::ModelConfig& c = run.config;
  c.kind = model::ModelKind::kBert;
  c.num_query_groups.reset();
  c.activation = model::Activation::kGelu;
  c.bert.binary_head = false;
  in_pairs(run);
  return run;
}

TestRun modernbert() {
  TestRun run = encoder();
  model::ModelConfig& c = run.config;
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.bert.pre_norm = true;
  c.bert.num_token_types = 0;
  c.window_size = 3;
  c.window_layers = {1, 3};
  c.rope_local_base_freq = 100;
  return run;
}

TestRun megatron_bert() {
  TestRun run = encoder();
  run.config.bert.binary_head = true;
  run.config.bert.pre_norm = true;
  run.config.bert.embedding_norm = false;
  run.config.bert.head_activation = model::Activation::kSilu;
  return run;
}

TestRun mpnet() {
  TestRun run = encoder();
  run.config.bert.relative_attention_num_buckets = 8;
  run.config.bert.first_position = 2;
  return run;
}

TestRun t5() {
  TestRun run = tiny_pairs_run();
  run.steps = 3;
  return run;
}

// NeMo's form: positions in the embedding, biases, a tied head.
TestRun t5_of_learned_positions() {
  TestRun run = t5();
  run.config.position_embedding_type = model::PositionEmbedding::kLearnedAbsolute;
  run.config.normalization = model::Normalization::kLayerNorm;
  run.config.bias = model::BiasKind::kAll;
  run.config.share_embeddings_and_output_weights = true;
  run.config.t5.scale_attention = true;
  run.config.t5.encoder_layers = 1;
  run.config.lm_head_bias = true;
  return run;
}

TestRun umt5() {
  TestRun run = t5();
  run.config.t5.relative_bias_per_layer = true;
  return run;
}

// Linear attention between layers of gated softmax attention.
TestRun qwen3_next(bool experts) {
  TestRun run = llama();
  auto& c = run.config;
  c.rotary_percentage = 0.5;
  c.ffn_hidden_size = 22;
  c.qk_layernorm = c.attention_output_gate = true;
  c.linear = {2, {}, 3, 6, 4, 5, 4};
  if (!experts) return run;
  run = with_experts(run);
  run.config.moe.moe_shared_expert_intermediate_size = 8;
  run.config.moe.moe_shared_expert_gate = true;
  run.config.moe.moe_aux_loss_coeff = 0.01;
  return run;
}

// A dense layer, then experts chosen within groups by biased sigmoid scores.
TestRun deepseek() {
  TestRun run = llama();
  auto& c = run.config;
  c.ffn_hidden_size = 22;
  c.num_query_groups = 4;
  c.latent = {true, 6, 5, 4, 2, 3};
  auto& moe = c.moe;
  moe.num_moe_experts = 8;
  moe.moe_router_topk = 3;
  moe.moe_ffn_hidden_size = 12;
  moe.moe_shared_expert_intermediate_size = 8;
  moe.moe_dense_layers = {0};
  moe.moe_router_score_function = model::RouterScoreFunction::kSigmoid;
  moe.moe_router_num_groups = 4;
  moe.moe_router_group_topk = 2;
  moe.moe_router_topk_scaling_factor = 2.5;
  moe.moe_router_enable_expert_bias = true;
  moe.moe_router_bias_update_rate = 0.05;
  return run;
}

// Queries of the stream itself, and no experts.
TestRun latent_attention_alone() {
  TestRun run = deepseek();
  run.config.latent.q_lora_rank.reset();
  run.config.moe = {};
  return run;
}

TestRun gpt_oss() {
  TestRun run = with_experts(gpt());
  run.steps = 4;
  model::ModelConfig& c = run.config;
  c.ffn_hidden_size = 24;
  c.attention_sinks = true;
  c.activation = model::Activation::kClampedSwiglu;
  c.activation_limit = 0.1;
  c.window_size = 5;
  c.window_attn_skip_freq = 2;
  c.moe.moe_aux_loss_coeff = 0.02;
  c.moe.moe_z_loss_coeff = 0.001;
  c.moe.moe_dense_layers = {1};
  return run;
}

TestRun bert() {
  TestRun run = encoder();
  run.steps = 4;
  run.micro_batch = 1;
  run.config.bert.binary_head = true;
  return run;
}

// No sentence head, positions from 2 on.
TestRun roberta() {
  TestRun run = bert();
  run.config.bert.binary_head = false;
  run.config.bert.first_position = 2;
  in_pairs(run);
  return run;
}

TestRun labelled(model::Task task) {
  TestRun run = bert();
  run.config.task.type = task;
  if (task != model::Task::kQuestionAnswering) run.config.task.labels = {"a", "b", "c"};
  in_pairs(run);
  return run;
}

TestRun number_of_texts() {
  TestRun run = labelled(model::Task::kSequenceClassification);
  run.config.task.labels = {"score"};
  return run;
}

// A Llama that classifies texts or tokens.
TestRun labelled_decoder(model::Task task) {
  TestRun run = labelled(task);
  model::ModelConfig& c = run.config;
  c.kind = model::ModelKind::kGpt;
  c.bert = {};
  c.position_embedding_type = model::PositionEmbedding::kRope;
  c.normalization = model::Normalization::kRmsNorm;
  c.bias = model::BiasKind::kNone;
  c.activation = model::Activation::kSwiglu;
  c.ffn_hidden_size = 32;
  return run;
}

}  // namespace

const std::vector<FamilyRun>& family_runs() {
  using enum model::Task;
  static const std::vector<FamilyRun> runs{
      {"multipliers", multipliers()},
      {"multipliers and experts", multipliers_and_experts()},
      {"one norm for both branches", one_norm_for_both_branches()},
      {"norms without parameters", norms_without_parameters()},
      {"first position and head bias", first_position_and_head_bias()},
      {"norms after rotation, layers without it", norms_after_rotation()},
      {"gated shared expert", gated_shared_expert()},
      {"ModernBERT", modernbert()},
      {"BERT of Megatron", megatron_bert()},
      {"MPNet", mpnet()},
      {"T5", t5()},
      {"T5 of learned positions", t5_of_learned_positions()},
      {"umT5", umt5()},
      {"DeepSeek-V3", deepseek()},
      {"latent attention alone", latent_attention_alone()},
      {"Qwen3-Next", qwen3_next(false)},
      {"Qwen3-Next of experts", qwen3_next(true)},
      {"gpt-oss", gpt_oss()},
      {"BERT", bert()},
      {"RoBERTa", roberta()},
      {"classes of texts", labelled(kSequenceClassification)},
      {"numbers of texts", number_of_texts()},
      {"classes of tokens", labelled(kTokenClassification)},
      {"answers", labelled(kQuestionAnswering)},
      {"classes of texts by a decoder", labelled_decoder(kSequenceClassification)},
      {"classes of tokens by a decoder", labelled_decoder(kTokenClassification)}};
  return runs;
}

TestRun family_run(std::string_view name) {
  for (const FamilyRun& family : family_runs())
    if (family.name == name) return family.run;
  fail<InternalError>("no model '{}' in family_runs", name);
}

run::Layout with_spread_layers(run::Layout layout, std::int64_t layers) {
  const std::int64_t chunks =
      schedule::placement_of(
          {.name = layout.schedule, .stages = layout.pipeline_ranks(), .chunks = layout.chunks})
          .chunks();
  layout.layers.clear();
  for (std::int64_t c = 0; c < chunks; ++c)
    layout.layers.push_back(layers * (c + 1) / chunks - layers * c / chunks);
  return layout;
}

}  // namespace stoa::layouts
