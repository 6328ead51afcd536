#include "cli/key_conditions.h"

#include <algorithm>
#include <initializer_list>

#include "train/layout_plan.h"
#include "train/run_config.h"

namespace stoa::cli {
namespace {

using model::ModelKind;
using model::RopeScaling;
using train::RunConfig;
using Keys = std::initializer_list<const char*>;

bool is_kind(const RunConfig& c, ModelKind kind) { return c.model.kind == kind; }

bool is_rope(const RunConfig& c) {
  return c.model.position_embedding_type == model::PositionEmbedding::kRope;
}

bool is_scaling(const RunConfig& c, std::initializer_list<RopeScaling> types) {
  return std::find(types.begin(), types.end(), c.model.rope_scaling.type) != types.end();
}

bool is_sentence_spans(const RunConfig& c) {
  return is_kind(c, ModelKind::kT5) && c.data.dataset_type == data::DatasetType::kT5Sentences;
}

// Samples that are made of prepared text, not read with their labels.
bool is_masked_text(const RunConfig& c) { return is_kind(c, ModelKind::kBert) && !c.model.task.labelled(); }

bool is_optimizer(const RunConfig& c, optim::OptimizerKind kind) { return c.optim.name == kind; }

bool decays(const RunConfig& c) { return c.optim.sched.name != optim::LrDecay::kConstant; }

bool warms_up(const RunConfig& c) {
  return c.optim.sched.warmup_steps.value_or(0) > 0 || c.optim.sched.warmup_ratio.value_or(0) > 0;
}

bool validates(const RunConfig& c) {
  return c.trainer.val_check_interval > 0 && c.trainer.limit_val_batches > 0;
}

// Paths below `section`, and the list of conditions under construction.
class List {
 public:
  template <class Holds>
  void add(const char* section, Keys keys, std::vector<std::string> on, const char* words, Holds holds) {
    std::vector<std::string> paths;
    for (const char* key : keys) paths.push_back(config::join_path(section, key));
    conditions_.push_back(
        config::condition<RunConfig>(std::move(paths), std::move(on), words, std::move(holds)));
  }
  std::vector<config::Condition> take() { return std::move(conditions_); }

 private:
  std::vector<config::Condition> conditions_;
};

void add_model(List& list) {
  const std::string positions = "model.position_embedding_type", kind = "model.kind";
  list.add("model", {"rotary_percentage", "rotary_base"}, {positions}, "position_embedding_type rope",
           is_rope);
  const std::string scheme = "model.peft.peft_scheme";
  list.add("model.peft", {"restore_from_path", "base_model_type", "quantize_base"}, {scheme}, "a peft_scheme",
           [](const RunConfig& c) { return c.model.peft.active(); });
  list.add("model.peft", {"lora_tuning.*"}, {scheme}, "peft_scheme lora",
           [](const RunConfig& c) { return c.model.peft.is_lora(); });
  list.add("model.peft", {"ia3_tuning.*"}, {scheme}, "peft_scheme ia3",
           [](const RunConfig& c) { return c.model.peft.is_ia3(); });
  list.add("model.peft", {"adapter_tuning.*"}, {scheme}, "peft_scheme adapter",
           [](const RunConfig& c) { return c.model.peft.is_bottleneck(); });
  list.add("model.peft", {"modules_to_save"}, {scheme}, "peft_scheme lora or ia3",
           [](const RunConfig& c) { return c.model.peft.is_lora() || c.model.peft.is_ia3(); });
  list.add("model.peft", {"trainable_token_indices"}, {scheme}, "peft_scheme lora",
           [](const RunConfig& c) { return c.model.peft.is_lora(); });
  list.add("model.peft.p_tuning", {"virtual_tokens"}, {scheme}, "peft_scheme ptuning, prompt or prefix",
           [](const RunConfig& c) { return c.model.peft.has_virtual_tokens(); });
  const auto encoder = [](const RunConfig& c) {
    return c.model.peft.peft_scheme == model::PeftScheme::kPTuning
               ? std::optional(c.model.peft.virtual_tokens.encoder_type)
               : std::nullopt;
  };
  const std::string type = "model.peft.p_tuning.encoder_type";
  list.add("model.peft.p_tuning", {"encoder_type", "bottleneck_dim"}, {scheme}, "peft_scheme ptuning",
           [encoder](const RunConfig& c) { return encoder(c).has_value(); });
  list.add("model.peft.p_tuning", {"num_layers"}, {scheme, type}, "peft_scheme ptuning, encoder_type lstm",
           [encoder](const RunConfig& c) { return encoder(c) == model::PromptEncoder::kLstm; });
  list.add("model.peft.p_tuning", {"embedding_dim"}, {scheme, type},
           "peft_scheme ptuning, encoder_type tpmlp",
           [encoder](const RunConfig& c) { return encoder(c) == model::PromptEncoder::kTensorMlp; });
  list.add("model.peft.p_tuning", {"init_std"}, {scheme, type},
           "peft_scheme prompt or prefix, or ptuning with encoder_type tpmlp", [encoder](const RunConfig& c) {
             return c.model.peft.has_virtual_tokens() &&
                    encoder(c).value_or(model::PromptEncoder::kTensorMlp) == model::PromptEncoder::kTensorMlp;
           });
  const std::string scaling = "model.rope_scaling.type";
  list.add("model.rope_scaling", {"factor"}, {scaling}, "rope_scaling.type other than default",
           [](const RunConfig& c) { return !is_scaling(c, {RopeScaling::kDefault}); });
  list.add("model.rope_scaling", {"original_max_position_embeddings"}, {scaling},
           "rope_scaling.type llama3, yarn or longrope", [](const RunConfig& c) {
             return is_scaling(c, {RopeScaling::kLlama3, RopeScaling::kYarn, RopeScaling::kLongrope});
           });
  list.add("model.rope_scaling", {"low_freq_factor", "high_freq_factor"}, {scaling},
           "rope_scaling.type llama3",
           [](const RunConfig& c) { return is_scaling(c, {RopeScaling::kLlama3}); });
  list.add("model.rope_scaling", {"beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"},
           {scaling}, "rope_scaling.type yarn",
           [](const RunConfig& c) { return is_scaling(c, {RopeScaling::kYarn}); });
  list.add("model.rope_scaling", {"attention_factor"}, {scaling}, "rope_scaling.type yarn or longrope",
           [](const RunConfig& c) {
             return is_scaling(c, {RopeScaling::kYarn, RopeScaling::kLongrope});
           });
  list.add("model.rope_scaling", {"short_factor", "long_factor"}, {scaling}, "rope_scaling.type longrope",
           [](const RunConfig& c) { return is_scaling(c, {RopeScaling::kLongrope}); });
  list.add("model", {"q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim"},
           {"model.multi_latent_attention"}, "multi_latent_attention true",
           [](const RunConfig& c) { return c.model.latent.multi_latent_attention; });
  list.add("model",
           {"linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim",
            "linear_conv_kernel_dim"},
           {"model.linear_attention_freq", "model.linear_attention_layers"},
           "linear_attention_freq or linear_attention_layers",
           [](const RunConfig& c) { return c.model.linear.any(); });
  list.add("model",
           {"moe_router_topk", "moe_layer_freq", "moe_router_score_function", "moe_router_pre_softmax",
            "moe_router_topk_scaling_factor", "moe_router_num_groups", "moe_router_group_topk",
            "moe_router_enable_expert_bias", "moe_router_load_balancing_type", "moe_aux_loss_coeff",
            "moe_z_loss_coeff", "moe_token_drop_policy"},
           {"model.num_moe_experts"}, "num_moe_experts",
           [](const RunConfig& c) { return c.model.moe.num_moe_experts.has_value(); });
  list.add("model", {"moe_router_bias_update_rate"},
           {"model.num_moe_experts", "model.moe_router_enable_expert_bias"},
           "moe_router_enable_expert_bias true", [](const RunConfig& c) {
             return c.model.moe.num_moe_experts && c.model.moe.moe_router_enable_expert_bias;
           });
  list.add("model", {"moe_aux_loss_coeff"}, {"model.moe_router_load_balancing_type"},
           "moe_router_load_balancing_type seq_aux_loss", [](const RunConfig& c) {
             return c.model.moe.moe_router_load_balancing_type == model::LoadBalancing::kSequence;
           });
  list.add("model",
           {"fp8_recipe", "fp8_margin", "fp8_wgrad", "fp8_amax_history_len", "fp8_amax_compute_algo",
            "first_last_layers_bf16"},
           {"model.fp8"}, "fp8", [](const RunConfig& c) { return c.model.fp8.fp8.has_value(); });
  list.add("model", {"mamba_state_dim", "mamba_head_dim", "mamba_num_groups", "mamba_num_heads"},
           {"model.hybrid_override_pattern"}, "hybrid_override_pattern",
           [](const RunConfig& c) { return !c.estimated.hybrid_override_pattern.empty(); });
  list.add("model", {"fp8_amax_history_len", "fp8_amax_compute_algo"}, {"model.fp8_recipe"},
           "fp8_recipe delayed",
           [](const RunConfig& c) { return c.model.fp8.fp8_recipe == model::Fp8Recipe::kDelayed; });
  list.add("model", {"num_layers_at_start_in_bf16", "num_layers_at_end_in_bf16"},
           {"model.fp8", "model.first_last_layers_bf16"}, "first_last_layers_bf16 true",
           [](const RunConfig& c) { return c.model.fp8.fp8 && c.model.fp8.first_last_layers_bf16; });
  list.add("model", {"cpu_offloading_num_layers", "cpu_offloading_activations", "cpu_offloading_weights"},
           {"model.cpu_offloading"}, "cpu_offloading true",
           [](const RunConfig& c) { return c.model.recompute.offload.cpu_offloading; });
  list.add("model.bert", {"*"}, {kind}, "kind bert",
           [](const RunConfig& c) { return is_kind(c, ModelKind::kBert); });
  list.add("model.bert", {"lm_head", "binary_head"}, {"model.task"}, "task language_model",
           [](const RunConfig& c) { return !c.model.task.labelled(); });
  list.add("model.bert", {"classifier_bias", "head_activation"}, {"model.task", "model.bert.lm_head"},
           "task language_model and bert.lm_head",
           [](const RunConfig& c) { return !c.model.task.labelled() && c.model.bert.lm_head; });
  list.add("model", {"pooling"}, {"model.task"}, "task embedding",
           [](const RunConfig& c) { return c.model.task.embeds(); });
  list.add("model.bert", {"pooler_activation"}, {"model.task"}, "task sequence_classification",
           [](const RunConfig& c) { return c.model.task.type == model::Task::kSequenceClassification; });
  list.add("model.t5", {"*"}, {kind}, "kind t5",
           [](const RunConfig& c) { return is_kind(c, ModelKind::kT5); });
  list.add("model.t5", {"relative_attention_num_buckets", "relative_attention_max_distance"}, {positions},
           "position_embedding_type relative", [](const RunConfig& c) {
             return c.model.position_embedding_type == model::PositionEmbedding::kRelative;
           });
}

void add_layout(List& list) {
  list.add("model", {"cp_comm_type"}, {"model.context_parallel_size"}, "context_parallel_size above 1",
           [](const RunConfig& c) { return c.layout.context_parallel_size > 1; });
  list.add("model", {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"},
           {"model.pipeline_model_parallel_size"}, "pipeline_model_parallel_size above 1",
           [](const RunConfig& c) { return c.layout.pipeline_model_parallel_size > 1; });
  list.add("model", {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"},
           {"model.pipeline_layers", "model.pipeline_model_parallel_split_rank"},
           "layers distributed equally: without pipeline_layers and pipeline_model_parallel_split_rank",
           [](const RunConfig& c) {
             return !c.layout.pipeline_layers && c.layout.pipeline_model_parallel_split_rank.value_or(0) == 0;
           });
  list.add("model.optim", {"reduce_each_microbatch"}, {"model.zero_stage"}, "zero_stage 2 or 3",
           [](const RunConfig& c) { return c.layout.zero_stage >= 2; });
}

void add_data(List& list) {
  const std::string kind = "model.kind", type = "model.data.dataset_type", task = "model.task";
  list.add("model.data", {"eod_mask_loss", "reset_position_ids", "reset_attention_mask"}, {kind}, "kind gpt",
           [](const RunConfig& c) { return is_kind(c, ModelKind::kGpt); });
  list.add("model.data",
           {"chat_template", "packed_sequence", "skip_bad_records", "train_ds.file_names",
            "validation_ds.file_names"},
           {"model.data.chat"}, "data.chat true", [](const RunConfig& c) { return c.chats.chat; });
  list.add("model.data", {"eod_mask_loss", "reset_position_ids", "reset_attention_mask", "index_mapping_dir"},
           {"model.data.chat"}, "prepared text (data.chat false)",
           [](const RunConfig& c) { return !c.chats.chat; });
  using tune::ObjectiveKind;
  const std::string objective = "model.objective.name";
  const auto is_objective = [](std::initializer_list<ObjectiveKind> kinds) {
    return [kinds = std::vector(kinds)](const RunConfig& c) {
      return std::find(kinds.begin(), kinds.end(), c.objective.name) != kinds.end();
    };
  };
  list.add("model.objective", {"name"}, {"model.data.chat"}, "data.chat true",
           [](const RunConfig& c) { return c.chats.chat; });
  list.add("model.objective", {"beta"}, {objective},
           "objective.name other than sft, reward, regression and contrastive", [](const RunConfig& c) {
             return c.objective.two_passes() && !c.objective.scores() && !c.objective.embeds();
           });
  list.add("model.objective", {"temperature"}, {objective}, "objective.name contrastive",
           is_objective({ObjectiveKind::kContrastive}));
  list.add("model.data", {"chat_template", "packed_sequence"}, {objective},
           "texts that are continued or scored: objective.name other than contrastive",
           [](const RunConfig& c) { return !c.objective.embeds(); });
  list.add("model.objective", {"center_rewards_coefficient"}, {objective}, "objective.name reward",
           is_objective({ObjectiveKind::kReward}));
  list.add("model.objective", {"label_smoothing"}, {objective}, "objective.name dpo or robust",
           is_objective({ObjectiveKind::kDpo, ObjectiveKind::kRobust}));
  list.add("model.objective", {"reference_model"}, {objective}, "an objective with a reference",
           [](const RunConfig& c) { return c.objective.refers(); });
  list.add("model.objective", {"gamma"}, {objective}, "objective.name simpo",
           is_objective({ObjectiveKind::kSimpo}));
  list.add("model.objective", {"sft_weight"}, {objective},
           "an objective of the probabilities of preference pairs",
           [](const RunConfig& c) { return c.objective.pairs() && !c.objective.scores(); });
  list.add("model.objective", {"desirable_weight", "undesirable_weight"}, {objective}, "objective.name kto",
           is_objective({ObjectiveKind::kKto}));
  const std::string teacher = "model.distill.teacher", kept = "model.distill.kept_logits";
  list.add("model.distill", {"loss", "temperature", "cross_entropy_weight"}, {teacher, kept},
           "a distill.teacher or distill.kept_logits", [](const RunConfig& c) { return c.distill.active(); });
  list.add(
      "model.distill", {"jsd_beta"}, {teacher, kept, "model.distill.loss"}, "distill.loss jsd",
      [](const RunConfig& c) { return c.distill.active() && c.distill.loss == tune::DistillLoss::kJsd; });
  list.add("model.data", {"masked_lm_prob"}, {kind, task}, "kind bert (task language_model) or t5",
           [](const RunConfig& c) { return is_masked_text(c) || is_kind(c, ModelKind::kT5); });
  list.add("model.data", {"short_seq_prob"}, {kind, type, task},
           "kind bert (task language_model) or dataset_type t5_sentences",
           [](const RunConfig& c) { return is_masked_text(c) || is_sentence_spans(c); });
  list.add("model.data", {"max_ngram_size"}, {task}, "task language_model",
           [](const RunConfig& c) { return !c.model.task.labelled(); });
  list.add("model.data", {"doc_stride"}, {kind, task}, "task question_answering",
           [](const RunConfig& c) { return c.model.task.type == model::Task::kQuestionAnswering; });
  list.add(
      "model.data", {"splits_string"}, {"model.data.data_prefix"},
      "one data_prefix, which it divides: this one names the files of each split",
      [](const RunConfig& c) { return c.data.data_prefix.empty() || !c.data.data_prefix.blend.empty(); });
}

void add_optimizer(List& list) {
  const std::string name = "model.optim.name", sched = "model.optim.sched.name";
  list.add("model.optim", {"betas", "eps"}, {name}, "optim.name adamw, adam or muon",
           [](const RunConfig& c) { return !is_optimizer(c, optim::OptimizerKind::kSgd); });
  list.add("model.optim", {"momentum"}, {name}, "optim.name sgd",
           [](const RunConfig& c) { return is_optimizer(c, optim::OptimizerKind::kSgd); });
  list.add("model.optim",
           {"muon_momentum", "muon_use_nesterov", "muon_num_ns_steps", "muon_coefficient_type",
            "muon_scale_mode", "muon_extra_scale_factor"},
           {name}, "optim.name muon",
           [](const RunConfig& c) { return is_optimizer(c, optim::OptimizerKind::kMuon); });
  list.add("model.optim.sched", {"warmup_init_lr"},
           {"model.optim.sched.warmup_steps", "model.optim.sched.warmup_ratio"}, "a warm-up", warms_up);
  list.add("model.optim.sched", {"min_lr", "constant_steps"}, {sched}, "a schedule that decays", decays);
  list.add("model.optim.sched", {"constant_steps"}, {"model.optim.sched.decay_steps"},
           "decay_steps left out, which follow from it",
           [](const RunConfig& c) { return !c.optim.sched.decay_steps; });
  list.add("model.optim.sched", {"wsd_decay_style"}, {sched}, "sched.name WSD",
           [](const RunConfig& c) { return c.optim.sched.name == optim::LrDecay::kWsd; });
  list.add("model", {"native_amp_init_scale", "native_amp_growth_interval", "hysteresis", "min_loss_scale"},
           {"trainer.precision"}, "trainer.precision fp16",
           [](const RunConfig& c) { return c.trainer.precision == train::Precision::kFp16; });
}

void add_run(List& list) {
  const std::string interval = "trainer.val_check_interval";
  list.add("trainer", {"limit_val_batches"}, {interval}, "val_check_interval above 0",
           [](const RunConfig& c) { return c.trainer.val_check_interval > 0; });
  list.add("trainer", {"sample_prompts"}, {interval, "model.kind"},
           "validations (val_check_interval above 0) of kind gpt",
           [](const RunConfig& c) { return validates(c) && is_kind(c, ModelKind::kGpt); });
  list.add("trainer", {"sample_max_tokens"}, {"trainer.sample_prompts"}, "sample_prompts",
           [](const RunConfig& c) { return !c.trainer.sample_prompts.empty(); });
  list.add(
      "trainer",
      {"eval_interval", "eval_limit", "eval_shots", "eval_chat_template", "eval_data", "eval_include_path"},
      {"trainer.eval_tasks"}, "eval_tasks", [](const RunConfig& c) { return !c.trainer.eval_tasks.empty(); });
  list.add("exp_manager", {"name"}, {"exp_manager.exp_dir"}, "exp_manager.exp_dir",
           [](const RunConfig& c) { return c.exp_manager.exp_dir.has_value(); });
  list.add("exp_manager", {"resume_ignore_no_checkpoint"}, {"exp_manager.resume_if_exists"},
           "resume_if_exists true", [](const RunConfig& c) { return c.exp_manager.resume_if_exists; });
  list.add("exp_manager.checkpoint_callback_params", {"*"}, {"exp_manager.create_checkpoint_callback"},
           "create_checkpoint_callback true",
           [](const RunConfig& c) { return c.exp_manager.create_checkpoint_callback; });
}

}  // namespace

std::vector<config::Condition> key_conditions() {
  List list;
  add_model(list);
  add_layout(list);
  add_data(list);
  add_optimizer(list);
  add_run(list);
  return list.take();
}

}  // namespace stoa::cli
