#include "key_cases.h"

namespace stoa::keys {
namespace {

using enum Sees;

void add_run(std::vector<KeyCase>& out) {
  const auto add = [&](KeyCase c) { out.push_back(std::move(c)); };
  add({"name", "gpt", {"name=wanderer"}, kText, "wanderer"});
  add({"restore_from_path", "gpt", {"restore_from_path=../first"}});
  add({"trainer.max_steps", "gpt", {"trainer.max_steps=3"}});
  add({"trainer.max_tokens", "gpt", {"trainer.max_tokens=300"}});
  add({"trainer.max_epochs", "gpt", {"trainer.max_steps=null", "trainer.max_epochs=0.02"}});
  add({"trainer.max_time", "gpt", {"trainer.max_time=0s"}});
  add({"trainer.precision", "gpt", {"trainer.precision=bf16"}});
  add({"trainer.log_every_n_steps", "gpt", {"trainer.log_every_n_steps=2"}});
  add({"trainer.val_check_interval", "gpt", {"trainer.val_check_interval=1"}});
  add({"trainer.limit_val_batches", "gpt", {"trainer.limit_val_batches=2"}});
  add({"trainer.gradient_clip_val", "gpt", {"trainer.gradient_clip_val=0.01"}, kWeights});
  add({"trainer.trace_steps", "gpt", {"trainer.trace_steps=[]"}, kFiles});
  add({"trainer.devices", "gpt", {"trainer.devices=2"}, kText, "2 ranks"});
  add({"trainer.num_nodes", "gpt", {"trainer.num_nodes=2"}, kText, "2 ranks"});
  add({"trainer.memory_limit_gb", "gpt", {"trainer.memory_limit_gb=1e-6"}, kRefusal, "memory_limit_gb"});
  add({"trainer.num_threads", "gpt", {"trainer.num_threads=3"}, kText, "3 threads"});
  add({"trainer.sample_prompts", "gpt", {"trainer.sample_prompts=[the stone]"}, kText, "the stone"});
  add({"trainer.sample_max_tokens", "gpt that tells stories", {"trainer.sample_max_tokens=2"}, kText, ""});
  add({"trainer.eval_tasks", "gpt", {"trainer.eval_tasks=[piqa]", "trainer.eval_data=[../sets]"}});
  const char* asked = "gpt that is asked";
  add({"trainer.eval_interval", asked, {"trainer.eval_interval=0"}});
  add({"trainer.eval_limit", asked, {"trainer.eval_limit=1"}});
  add({"trainer.eval_shots", asked, {"trainer.eval_shots=7"}, kRefusal, "to take 7 shots from"});
  add({"trainer.eval_chat_template", asked, {"trainer.eval_chat_template=true"}, kRefusal, "chat template"});
  add({"trainer.eval_data", asked, {"trainer.eval_data=[../nowhere]"}, kRefusal, "nowhere"});
  add({"trainer.eval_include_path", asked, {"trainer.eval_include_path=[../tasks]"}});
  add({"exp_manager.explicit_log_dir", "gpt", {"exp_manager.explicit_log_dir=elsewhere"}, kFiles});
  add({"exp_manager.exp_dir", "gpt in a parent directory", {"exp_manager.exp_dir=other"}, kFiles});
  add({"exp_manager.name", "gpt in a parent directory", {"exp_manager.name=child"}, kFiles});
  add({"exp_manager.resume_if_exists",
       "gpt that has run",
       {"exp_manager.resume_if_exists=false"},
       kRefusal,
       "resume_if_exists"});
  add({"exp_manager.resume_ignore_no_checkpoint",
       "gpt",
       {"exp_manager.resume_ignore_no_checkpoint=false"},
       kRefusal,
       "resume_ignore_no_checkpoint"});
  add({"exp_manager.create_checkpoint_callback",
       "gpt",
       {"exp_manager.create_checkpoint_callback=false"},
       kFiles});
  add({"exp_manager.create_tensorboard_logger",
       "gpt",
       {"exp_manager.create_tensorboard_logger=false"},
       kFiles});
  const char* saves = "gpt that saves at every step";
  add({"exp_manager.checkpoint_callback_params.every_n_train_steps",
       saves,
       {"exp_manager.checkpoint_callback_params.every_n_train_steps=3",
        "exp_manager.checkpoint_callback_params.keep_last=5"},
       kFiles});
  add({"exp_manager.checkpoint_callback_params.keep_last",
       saves,
       {"exp_manager.checkpoint_callback_params.keep_last=4"},
       kFiles});
  add({"exp_manager.checkpoint_callback_params.save_top_k",
       saves,
       {"exp_manager.checkpoint_callback_params.save_top_k=-1"},
       kFiles});
  add({"exp_manager.checkpoint_callback_params.monitor",
       "gpt that is asked",
       {"exp_manager.checkpoint_callback_params.monitor=piqa/ac"},
       kRefusal,
       "did you mean 'piqa/acc'?"});
  add({"exp_manager.checkpoint_callback_params.train_time_interval",
       "gpt",
       {"exp_manager.checkpoint_callback_params.train_time_interval=0.000001s",
        "exp_manager.checkpoint_callback_params.keep_last=5"},
       kFiles});
}

void add_batch(std::vector<KeyCase>& out) {
  const auto add = [&](KeyCase c) { out.push_back(std::move(c)); };
  add({"model.micro_batch_size", "gpt", {"model.micro_batch_size=1"}, kTrace});
  add({"model.global_batch_size", "gpt", {"model.global_batch_size=6"}});
  add({"model.rampup_batch_size", "gpt", {"model.rampup_batch_size=[2,2,4]"}});
  add({"model.native_amp_init_scale", "fp16", {"model.native_amp_init_scale=1024"}});
  add({"model.native_amp_growth_interval",
       "fp16",
       {"model.native_amp_init_scale=1024", "model.native_amp_growth_interval=1"}});
  add({"model.hysteresis", "fp16 that overflows", {"model.hysteresis=1"}});
  add({"model.min_loss_scale", "fp16 that overflows", {"model.min_loss_scale=1e30"}});
}

void add_model(std::vector<KeyCase>& out) {
  // `model.KEY=VALUE` changes the numbers of the context.
  const auto set = [&](const char* key, const char* value, const char* context = "gpt", Sees sees = kNumbers,
                       const char* text = "") {
    out.push_back({key, context, {std::string(key) + "=" + value}, sees, text});
  };
  set("model.kind", "bert", "gpt", kRefusal, "[CLS]");
  set("model.num_layers", "3");
  set("model.hidden_size", "48");
  set("model.ffn_hidden_size", "64");
  set("model.num_attention_heads", "4");
  set("model.num_query_groups", "1");
  set("model.kv_channels", "8");
  set("model.encoder_seq_length", "16");
  set("model.max_position_embeddings", "64", "gpt", kWeights);
  set("model.first_position", "3");
  set("model.position_embedding_type", "alibi");
  set("model.rotary_percentage", "0.5", "rope");
  set("model.rotary_base", "100", "rope");
  set("model.rope_local_base_freq", "100", "window");
  set("model.no_rope_layers", "[1]", "rope");
  set("model.rope_scaling.type", "linear", "llama3");
  out.back().change.emplace_back("model.rope_scaling.original_max_position_embeddings=null");
  set("model.rope_scaling.factor", "2", "llama3");
  set("model.rope_scaling.original_max_position_embeddings", "16", "llama3");
  set("model.rope_scaling.low_freq_factor", "0.5", "llama3");
  set("model.rope_scaling.high_freq_factor", "8", "llama3");
  set("model.rope_scaling.beta_fast", "2", "yarn");
  set("model.rope_scaling.beta_slow", "0.1", "yarn");
  set("model.rope_scaling.mscale", "2", "yarn");
  set("model.rope_scaling.mscale_all_dim", "1", "yarn");
  set("model.rope_scaling.attention_factor", "1.5", "yarn");
  set("model.rope_scaling.truncate", "false", "yarn");
  set("model.rope_scaling.short_factor", "[1,1,1,1,1,1,1,4]", "longrope within its length");
  set("model.rope_scaling.long_factor", "[2,2,2,2,3,3,3,9]", "longrope");
  set("model.normalization", "rmsnorm");
  set("model.layernorm_epsilon", "1e-2");
  set("model.norm_placement", "both");
  set("model.norm_bias", "false");
  set("model.norm_weight", "false", "norms without bias");
  set("model.use_parallel_residual", "true");
  set("model.num_ln_in_parallel_attn", "1", "parallel residual");
  set("model.activation", "relu");
  set("model.activation_alpha", "1", "clamped gate");
  set("model.activation_limit", "0.01", "clamped gate");
  set("model.bias", "none");
  set("model.qkv_bias", "false");
  set("model.attention_output_bias", "false");
  set("model.mlp_bias", "false");
  set("model.lm_head_bias", "true");
  set("model.logit_scale", "0.5");
  set("model.embedding_multiplier", "2", "rope");
  set("model.residual_multiplier", "0.5");
  set("model.softmax_scale", "0.1");
  set("model.attention_sinks", "true");
  set("model.attention_output_gate", "true");
  set("model.share_embeddings_and_output_weights", "false");
  set("model.qk_layernorm", "true");
  set("model.qk_layernorm_all_heads", "true", "norm of q and k");
  set("model.qk_layernorm_after_rope", "true", "norm of q and k, rope");
  set("model.window_size", "4");
  set("model.window_first_layer", "1", "window");
  set("model.window_attn_skip_freq", "2", "window");
  set("model.window_layers", "[1]", "window");
  set("model.query_pre_attn_scalar", "4");
  set("model.attn_logit_softcapping", "0.01");
  set("model.final_logit_softcapping", "0.1");
  set("model.apply_embedding_scaling", "true", "rope");
  set("model.embedding_layernorm", "true");
  set("model.hidden_dropout", "0.2");
  set("model.attention_dropout", "0.2");
  set("model.embedding_dropout", "0.2");
  set("model.label_smoothing", "0.1");
  set("model.z_loss_coeff", "0.01");
  set("model.fp32_residual_connection", "false", "bf16");
  set("model.init_method_std", "0.1");
  set("model.use_scaled_init_method", "false");
  set("model.vocab_size", "400", "gpt", kWeights);
  set("model.make_vocab_size_divisible_by", "512", "gpt", kMemory);
  set("model.seed", "7");
  set("model.freeze", "[embedding]");
  set("model.peft.peft_scheme", "none", "lora");
  set("model.peft.restore_from_path", "../first", "lora", kRefusal, "is not an adapter");
  set("model.peft.base_model_type", "llama", "lora", kRefusal, "llama");
  set("model.peft.modules_to_save", "[ln_f]", "lora");
  set("model.peft.quantize_base", "int8", "lora");
  set("model.peft.trainable_token_indices", "[3]", "lora");
  set("model.peft.lora_tuning.adapter_dim", "2", "lora");
  set("model.peft.lora_tuning.alpha", "3", "lora");
  set("model.peft.lora_tuning.adapter_dropout", "0.5", "lora");
  set("model.peft.lora_tuning.target_modules", "[c_attn]", "lora");
  set("model.peft.lora_tuning.exclude_modules", "[c_attn]", "lora");
  set("model.peft.lora_tuning.layer_selection", "[1]", "lora");
  set("model.peft.lora_tuning.use_rslora", "true", "lora");
  set("model.peft.lora_tuning.use_dora", "true", "lora");
  set("model.peft.lora_tuning.rank_pattern", "[c_attn=2]", "lora");
  set("model.peft.lora_tuning.alpha_pattern", "[c_attn=2]", "lora");
  set("model.peft.lora_tuning.column_init_method", "gaussian", "lora");
  set("model.peft.lora_tuning.loraplus_lr_ratio", "16", "lora");
  set("model.peft.lora_tuning.bias", "all", "lora");
  set("model.peft.ia3_tuning.target_modules", "[c_attn]", "ia3");
  set("model.peft.ia3_tuning.layer_selection", "[1]", "ia3");
  set("model.peft.ia3_tuning.feedforward_modules", "[c_proj]", "ia3");
  set("model.peft.adapter_tuning.type", "houlsby", "bottlenecks");
  set("model.peft.adapter_tuning.adapter_dim", "3", "bottlenecks");
  set("model.peft.adapter_tuning.reduction_factor", "4", "bottlenecks");
  set("model.peft.adapter_tuning.non_linearity", "tanh", "bottlenecks");
  set("model.peft.adapter_tuning.scaling", "2", "bottlenecks");
  set("model.peft.adapter_tuning.layer_selection", "[1]", "bottlenecks");
  set("model.peft.p_tuning.virtual_tokens", "2", "p-tuning");
  set("model.peft.p_tuning.encoder_type", "lstm", "p-tuning");
  set("model.peft.p_tuning.bottleneck_dim", "9", "p-tuning");
  set("model.peft.p_tuning.embedding_dim", "9", "p-tuning");
  set("model.peft.p_tuning.num_layers", "1", "p-tuning by LSTM");
  set("model.peft.p_tuning.init_std", "0.5", "p-tuning");
  set("model.use_mup", "true", "gpt", kRefusal, "mup_base_hidden_size");
  set("model.mup_base_hidden_size", "8", "mup");
  set("model.mup_base_head_dim", "4", "mup");
  set("model.mup_output_mult", "3", "mup");
  set("model.multi_latent_attention", "false", "latent", kRefusal, "multi_latent_attention");
  set("model.q_lora_rank", "8", "latent");
  set("model.kv_lora_rank", "12", "latent");
  set("model.qk_head_dim", "12", "latent");
  set("model.qk_pos_emb_head_dim", "8", "latent");
  set("model.v_head_dim", "4", "latent");
  set("model.linear_attention_freq", "2", "linear attention in every layer");
  out.back().change.emplace_back("model.linear_attention_layers=[]");
  set("model.linear_attention_layers", "[0]", "linear attention in every layer");
  set("model.linear_num_key_heads", "1", "linear attention in every layer");
  set("model.linear_num_value_heads", "4", "linear attention in every layer");
  set("model.linear_key_head_dim", "4", "linear attention in every layer");
  set("model.linear_value_head_dim", "4", "linear attention in every layer");
  set("model.linear_conv_kernel_dim", "2", "linear attention in every layer");
  set("model.fp8", "e4m3", "fp8");
  set("model.fp8_recipe", "delayed", "fp8");
  set("model.fp8_margin", "6", "fp8");
  set("model.fp8_amax_history_len", "1", "fp8 delayed", kAny);
  set("model.fp8_amax_compute_algo", "most_recent", "fp8 delayed");
  set("model.fp8_wgrad", "false", "fp8");
  set("model.first_last_layers_bf16", "true", "fp8");
  set("model.num_layers_at_start_in_bf16", "2", "fp8 but for the ends");
  set("model.num_layers_at_end_in_bf16", "2", "fp8 but for the ends");
  // What only plans have.
  const auto lacks = [&](const char* key, const char* value, const char* context, const char* words) {
    set(key, value, context, kRefusal, words);
  };
  lacks("model.mtp_num_layers", "1", "gpt", "multi-token prediction");
  lacks("model.fp8_params", "true", "fp8", "weights kept in 8 bits");
  lacks("model.fp8_blocks", "mxfp8", "fp8", "a scale for each block");
  out.push_back({"model.hybrid_override_pattern",
                 "gpt",
                 {"model.num_layers=2", "model.hybrid_override_pattern='M*'"},
                 kRefusal,
                 "state-space layers"});
  out.push_back({"model.recompute_modules",
                 "gpt",
                 {"model.activations_checkpoint_granularity=selective", "model.recompute_modules=[mlp]"},
                 kRefusal,
                 "recomputation of mlp alone"});
  lacks("model.use_tp_pp_dp_mapping", "true", "gpt", "data parallelism outermost");
  lacks("model.num_distributed_optimizer_instances", "2", "gpt", "over part of the data-parallel ranks");
  lacks("model.overlap_moe_expert_parallel_comm", "true", "experts",
        "communication during another microbatch");
  for (const char* key :
       {"model.exp_avg_dtype", "model.exp_avg_sq_dtype", "model.main_params_dtype", "model.main_grads_dtype"})
    lacks(key, "bf16", "gpt", "in fewer than 32 bits");
  set("model.activations_checkpoint_granularity", "selective", "gpt", kMemory);
  out.push_back({"model.activations_checkpoint_method",
                 "recomputed",
                 {"model.activations_checkpoint_method=uniform", "model.activations_checkpoint_num_layers=2"},
                 kMemory});
  set("model.activations_checkpoint_num_layers", "1", "recomputed", kMemory);
  set("model.cpu_offloading", "true", "gpt of 4 layers", kMemory);
  set("model.cpu_offloading_num_layers", "1", "offloaded", kMemory);
  set("model.cpu_offloading_activations", "false", "offloaded", kRefusal, "cpu_offloading_activations");
  set("model.cpu_offloading_weights", "true", "offloaded", kRefusal, "cpu_offloading_weights");
}

void add_experts(std::vector<KeyCase>& out) {
  const auto set = [&](const char* key, const char* value, const char* context = "experts",
                       Sees sees = kNumbers) {
    out.push_back({key, context, {std::string(key) + "=" + value}, sees});
  };
  out.push_back({"model.num_moe_experts", "gpt", {"model.num_moe_experts=4", "model.bias=none"}});
  set("model.moe_router_topk", "1");
  set("model.moe_ffn_hidden_size", "32");
  set("model.moe_shared_expert_intermediate_size", "8");
  set("model.moe_shared_expert_gate", "true", "experts beside a shared one");
  set("model.moe_layer_freq", "2");
  set("model.moe_dense_layers", "[1]");
  set("model.moe_router_score_function", "sigmoid");
  set("model.moe_router_pre_softmax", "true");
  set("model.moe_router_topk_scaling_factor", "2.5");
  set("model.moe_router_num_groups", "2", "groups of experts");
  set("model.moe_router_group_topk", "1", "groups of experts");
  set("model.moe_router_enable_expert_bias", "true", "groups of experts", kAny);
  set("model.moe_router_bias_update_rate", "0.5", "experts with a bias");
  out.push_back({"model.moe_router_load_balancing_type",
                 "experts with a loss",
                 {"model.moe_router_load_balancing_type=none"},
                 kRefusal,
                 "moe_router_load_balancing_type"});
  set("model.moe_aux_loss_coeff", "0.1", "experts", kAny);
  set("model.moe_z_loss_coeff", "0.1", "experts", kAny);
  set("model.moe_expert_capacity_factor", "0.6");
  set("model.moe_buffer_factor", "0.5", "experts spread over 2 ranks", kMemory);
  set("model.moe_token_drop_policy", "position", "experts with capacity");
  set("model.expert_model_parallel_size", "2", "experts of 2 ranks", kMemory);
  set("model.expert_tensor_parallel_size", "1", "experts of 2 tensor ranks", kMemory);
}

void add_layout(std::vector<KeyCase>& out) {
  const auto set = [&](const char* key, const char* value, const char* context, Sees sees = kTrace,
                       const char* text = "") {
    out.push_back({key, context, {std::string(key) + "=" + value}, sees, text});
  };
  set("model.tensor_model_parallel_size", "2", "2 replicas", kMemory);
  set("model.pipeline_model_parallel_size", "2", "2 replicas", kMemory);
  set("model.context_parallel_size", "2", "2 replicas", kMemory);
  set("model.cp_comm_type", "all_gather", "2 context ranks", kMemory);
  set("model.hierarchical_context_parallel_sizes", "[1,4]", "4 context ranks", kAny);
  set("model.sequence_parallel", "true", "2 tensor ranks", kMemory);
  set("model.virtual_pipeline_model_parallel_size", "2", "2 stages");
  set("model.pipeline_schedule", "zb-h1", "2 stages");
  set("model.microbatch_group_size_per_vp_stage", "4", "2 stages of 2 chunks");
  set("model.pipeline_layers", "[1,3]", "2 stages", kMemory);
  set("model.pipeline_model_parallel_split_rank", "1", "t5 of 2 stages", kMemory);
  set("model.account_for_embedding_in_pipeline_split", "true", "2 stages", kRefusal, "embedding");
  set("model.account_for_loss_in_pipeline_split", "true", "2 stages", kRefusal, "head");
  set("model.zero_stage", "1", "2 replicas", kMemory);
  set("model.optim.bucket_cap_mb", "0.02", "2 replicas");
  set("model.optim.overlap_grad_sync", "true", "2 replicas", kAny);
  set("model.optim.reduce_each_microbatch", "true", "2 replicas, zero 2", kMemory);
  set("model.optim.grad_reduce_type", "bf16", "2 replicas");
  out.back().sees = kNumbers;
}

void add_other_kinds(std::vector<KeyCase>& out) {
  const auto set = [&](const char* key, const char* value, const char* context, Sees sees = kNumbers,
                       const char* text = "") {
    out.push_back({key, context, {std::string(key) + "=" + value}, sees, text});
  };
  set("model.bert.num_token_types", "4", "bert", kWeights);
  set("model.bert.lm_head", "false", "bert of tokens alone", kRefusal, "lm_head");
  set("model.bert.binary_head", "false", "bert");
  set("model.bert.first_position", "2", "bert of tokens alone", kAny);
  set("model.bert.pre_norm", "true", "bert");
  set("model.bert.embedding_norm", "false", "bert, norms before");
  set("model.bert.head_activation", "silu", "bert");
  set("model.bert.relative_attention_num_buckets", "8", "bert");
  set("model.bert.classifier_bias", "false", "bert");
  set("model.bert.pooler_activation", "relu", "bert, classes");
  set("model.task", "token_classification", "bert, classes", kRefusal, "words");
  set("model.labels", "[hard, soft]", "bert, classes");
  set("model.classifier_dropout", "0.5", "bert, classes");
  set("model.t5.encoder_layers", "1", "t5 of 2 stages", kWeights);
  set("model.t5.seq_length_dec", "12", "t5");
  set("model.t5.relative_attention_num_buckets", "8", "t5", kWeights);
  set("model.t5.relative_attention_max_distance", "20", "t5");
  set("model.t5.relative_bias_per_layer", "true", "t5", kWeights);
  set("model.t5.scale_attention", "true", "t5");
  set("model.t5.scale_decoder_outputs", "true", "t5");
}

void add_tokenizer(std::vector<KeyCase>& out) {
  const auto set = [&](const char* key, e2e::Arguments change, Sees sees, const char* text = "") {
    out.push_back({key, "gpt", std::move(change), sees, text});
  };
  set("model.tokenizer.library", {"model.tokenizer.library=megatron"}, kRefusal, "megatron");
  set("model.tokenizer.type", {"model.tokenizer.type=nowhere"}, kRefusal, "nowhere");
  const e2e::Arguments megatron{"model.tokenizer.library=megatron", "model.tokenizer.type=null"};
  using e2e::operator+;
  set("model.tokenizer.vocab_file",
      megatron + e2e::Arguments{"model.tokenizer.vocab_file=a.json", "model.tokenizer.merge_file=b.txt"},
      kRefusal, "a.json");
  set("model.tokenizer.merge_file",
      megatron +
          e2e::Arguments{"model.tokenizer.vocab_file=../tok/vocab.json", "model.tokenizer.merge_file=b.txt"},
      kRefusal, "b.txt");
  out.push_back({"model.tokenizer.model",
                 "gpt of pieces",
                 {"model.tokenizer.model=nowhere.model"},
                 kRefusal,
                 "nowhere.model"});
  out.push_back({"model.tokenizer.num_sentinel_tokens",
                 "gpt of pieces",
                 {"model.tokenizer.num_sentinel_tokens=40"},
                 kRefusal,
                 "prepared with another tokenizer"});
}

void add_data(std::vector<KeyCase>& out) {
  const auto set = [&](const char* key, const char* value, const char* context = "gpt", Sees sees = kNumbers,
                       const char* text = "") {
    out.push_back({key, context, {std::string(key) + "=" + value}, sees, text});
  };
  set("model.data.data_prefix", "../other");
  set("model.data.splits_string", "'50,50,0'");
  set("model.data.seq_length", "null", "gpt", kAny);
  out.back().change = {"model.encoder_seq_length=null", "model.data.seq_length=16"};
  set("model.data.eod_mask_loss", "true");
  set("model.data.reset_position_ids", "true");
  set("model.data.reset_attention_mask", "true");
  set("model.data.dataset_type", "t5", "t5 of sentences");
  set("model.data.masked_lm_prob", "0.4", "bert");
  set("model.data.short_seq_prob", "0.9", "bert");
  set("model.data.mean_ngram_size", "6", "t5");
  set("model.data.max_ngram_size", "1", "bert");
  set("model.data.doc_stride", "6", "bert, answers");
  set("model.data.index_mapping_dir", "indices", "gpt", kFiles);
  set("model.data.chat", "true", "gpt", kRefusal, "cannot read");
  set("model.data.chat_template", "chatml", "chats");
  set("model.data.packed_sequence", "false", "chats");
  set("model.data.skip_bad_records", "false", "chats with a record that cannot be used", kRefusal, "1 of");
  set("model.data.train_ds.file_names", "[../other.jsonl]", "chats in NeMo's files");
  set("model.data.validation_ds.file_names", "[../other.jsonl]", "chats in NeMo's files");
  set("model.objective.name", "ipo", "conservative preferences");
  out.back().change.emplace_back("model.objective.label_smoothing=0");
  set("model.objective.beta", "0.5", "conservative preferences");
  set("model.objective.label_smoothing", "0.4", "conservative preferences");
  set("model.objective.sft_weight", "0.5", "conservative preferences");
  set("model.objective.reference_model", "../first", "conservative preferences", kRefusal, "different shape");
  set("model.pooling", "cls", "texts that belong together");
  set("model.objective.temperature", "0.5", "texts that belong together");
  set("model.objective.gamma", "2", "simple preferences");
  set("model.objective.center_rewards_coefficient", "0.5", "rewards");
  set("model.objective.desirable_weight", "3", "judged answers");
  set("model.distill.teacher", "../first");
  set("model.distill.kept_logits", "../kept", "gpt whose teacher was kept");
  set("model.distill.loss", "reverse_kl", "gpt that is taught");
  set("model.distill.temperature", "3", "gpt that is taught");
  set("model.distill.cross_entropy_weight", "0.5", "gpt that is taught");
  set("model.distill.jsd_beta", "0.1", "gpt that is taught by a mixture");
  set("model.objective.undesirable_weight", "3", "judged answers");
}

void add_optimizer(std::vector<KeyCase>& out) {
  const auto set = [&](const char* key, const char* value, const char* context = "gpt", Sees sees = kNumbers,
                       const char* text = "") {
    out.push_back({key, context, {std::string(key) + "=" + value}, sees, text});
  };
  set("model.optim.name", "sgd");
  set("model.optim.lr", "2e-3");
  set("model.optim.weight_decay", "1", "gpt", kWeights);
  set("model.optim.betas", "[0.5,0.6]");
  set("model.optim.eps", "1e-2");
  set("model.optim.momentum", "0.1", "sgd");
  set("model.optim.muon_momentum", "0.1", "muon");
  set("model.optim.muon_use_nesterov", "false", "muon");
  set("model.optim.muon_num_ns_steps", "1", "muon");
  set("model.optim.muon_coefficient_type", "simple", "muon");
  set("model.optim.muon_scale_mode", "unit_rms_norm", "muon");
  set("model.optim.muon_extra_scale_factor", "0.2", "muon");
  set("model.optim.start_weight_decay", "0.4", "growing decay", kWeights);
  set("model.optim.end_weight_decay", "0.9", "growing decay", kWeights);
  set("model.optim.weight_decay_incr_style", "cosine", "growing decay", kWeights);
  set("model.optim.sched.name", "InverseSquareRootAnnealing");
  set("model.optim.sched.warmup_steps", "1");
  set("model.optim.sched.warmup_ratio", "0.3", "gpt without a warm-up");
  out.back().change.emplace_back("model.optim.sched.warmup_steps=null");
  set("model.optim.sched.warmup_init_lr", "1e-4");
  set("model.optim.sched.constant_steps", "1");
  set("model.optim.sched.min_lr", "5e-4");
  set("model.optim.sched.decay_steps", "12");
  set("model.optim.sched.wsd_decay_steps", "1", "wsd");
  set("model.optim.sched.wsd_decay_style", "linear", "wsd");
}

}  // namespace

std::vector<KeyCase> key_cases() {
  std::vector<KeyCase> out;
  add_run(out);
  add_batch(out);
  add_model(out);
  add_experts(out);
  add_layout(out);
  add_other_kinds(out);
  add_tokenizer(out);
  add_data(out);
  add_optimizer(out);
  return out;
}

std::vector<KeyWithoutEffect> keys_without_effect() {
  constexpr const char* kEstimated =
      "state-space layers are estimated by plans, and no run has them: tests of plan/estimated_test.cc see "
      "it";
  return {
      {"trainer.communication_timeout",
       "bounds a wait for a rank that does not come: tests of faults (mpi.timeout, tcp.timeout) see it"},
      {"trainer.check_weight_hash_across_dp_replicas_interval",
       "a check that passes without a trace: tests of compare_replicas() see it fail where weights differ"},
      {"trainer.stop_grace",
       "bounds the end of a run after SIGINT or SIGTERM: Interrupt.* of the end-to-end tests see it"},
      {"model.moe_pad_expert_input_to_capacity",
       "a wish about shapes for Megatron-LM's sake: results, memory and speed are the same here, as its help "
       "says; it is written into arguments for Megatron-LM"},
      {"model.mamba_state_dim", kEstimated},
      {"model.mamba_head_dim", kEstimated},
      {"model.mamba_num_groups", kEstimated},
      {"model.mamba_num_heads", kEstimated},
  };
}

std::vector<KeyOfOtherKind> keys_of_other_kinds() {
  const char* one_rank = "the contexts have one rank, and a configuration runs on one rank too";
  return {
      {"any", "model.multi_latent_attention", "the value of the case is the default"},
      {"any", "model.fp32_residual_connection", "in fp32 the residual stream is fp32 either way"},
      {"any", "model.sequence_parallel", one_rank},
      {"any", "model.zero_stage", one_rank},
      {"any", "model.optim.bucket_cap_mb", one_rank},
      {"any", "model.optim.overlap_grad_sync", one_rank},
      {"any", "model.optim.grad_reduce_type", one_rank},
      {"any", "model.data.dataset_type", "the value of the case is the default"},
      {"bert", "model.kind", "the value of the case is that of the context"},
      {"t5", "model.max_position_embeddings",
       "relative positions have no table: it bounds what the model reads"},
      {"t5", "model.t5.encoder_layers", "the value of the case is half of the layers, the default"},
  };
}

}  // namespace stoa::keys
