#include "key_cases.h"

namespace stoa::keys {
namespace {

using e2e::Arguments;
using e2e::operator+;

const Arguments kRope{"model.position_embedding_type=rope"};
const Arguments kExperts{"model.bias=none", "model.num_moe_experts=4", "model.moe_ffn_hidden_size=16"};
const Arguments kGroups =
    kExperts + Arguments{"model.num_moe_experts=8", "model.moe_router_score_function=sigmoid",
                         "model.moe_router_num_groups=4", "model.moe_router_group_topk=2"};
const Arguments kLatent{"model.multi_latent_attention=true",
                        "model.position_embedding_type=rope",
                        "model.bias=none",
                        "model.normalization=rmsnorm",
                        "model.q_lora_rank=12",
                        "model.kv_lora_rank=8",
                        "model.qk_head_dim=8",
                        "model.qk_pos_emb_head_dim=4",
                        "model.v_head_dim=8"};
const Arguments kMuon{"model.optim.name=muon"};
const Arguments kFp8{"trainer.precision=bf16", "model.fp8=hybrid"};
const Arguments kDelayed = kFp8 + Arguments{"model.fp8_recipe=delayed"};
const Arguments kFp16{"trainer.precision=fp16"};
const Arguments kStages{"--ranks", "2", "model.pipeline_model_parallel_size=2", "model.num_layers=4"};
const Arguments kReplicas{"--ranks", "2"};
const Arguments kWsd{"model.optim.sched.name=WSD", "model.optim.sched.wsd_decay_steps=2"};
const Arguments kLinear{"model.bias=none",
                        "model.linear_attention_layers=[0,1]",
                        "model.linear_num_key_heads=2",
                        "model.linear_num_value_heads=2",
                        "model.linear_key_head_dim=8",
                        "model.linear_value_head_dim=8"};

Arguments scaled(const char* type, const Arguments& more = {}) {
  return kRope +
         Arguments{std::string("model.rope_scaling.type=") + type, "model.rope_scaling.factor=4",
                   "model.rope_scaling.original_max_position_embeddings=8"} +
         more;
}

}  // namespace

std::vector<Context> contexts() {
  using enum Material;
  const Arguments bert{"model.kind=bert", "model.activation=gelu", "model.micro_batch_size=4"};
  const Arguments t5{"model.kind=t5", "model.position_embedding_type=relative", "model.t5.seq_length_dec=16"};
  const Arguments factors{"model.rope_scaling.short_factor=[1,1,1,1,1,1,1,1]",
                          "model.rope_scaling.long_factor=[2,2,2,2,3,3,3,3]"};
  return {
      {"gpt", kText},
      {"gpt, no cap on gradients", kText, {"trainer.gradient_clip_val=0"}},
      {"gpt of 4 layers", kText, {"model.num_layers=4"}},
      {"gpt that saves at every step",
       kText,
       {"exp_manager.checkpoint_callback_params.every_n_train_steps=1", "trainer.val_check_interval=1",
        "exp_manager.checkpoint_callback_params.keep_last=1"}},
      {"gpt that tells stories", kText, {"trainer.sample_prompts=[the stone]"}},
      {"gpt that is asked",
       kText,
       {"trainer.eval_tasks=[piqa]", "trainer.eval_data=[../sets]", "trainer.eval_interval=1"}},
      {"gpt in a parent directory",
       kText,
       {"exp_manager.explicit_log_dir=null", "exp_manager.exp_dir=parent"}},
      {"gpt without a warm-up", kText, {"model.optim.sched.warmup_steps=0"}},
      {"gpt that has run", kText, {}, true},
      {"gpt of pieces", kPieces},
      {"lora", kText, {"restore_from_path=../first", "model.peft.peft_scheme=lora"}},
      {"ia3",
       kText,
       {"restore_from_path=../first", "model.peft.peft_scheme=ia3",
        "model.peft.ia3_tuning.target_modules=[c_attn,c_fc,c_proj]"}},
      {"bottlenecks", kText, {"restore_from_path=../first", "model.peft.peft_scheme=adapter"}},
      {"rope", kText, kRope},
      {"llama3", kText, scaled("llama3")},
      {"yarn", kText,
       scaled("yarn", {"model.rope_scaling.mscale=1", "model.rope_scaling.mscale_all_dim=0.5",
                       "model.rope_scaling.original_max_position_embeddings=64", "model.rotary_base=10"})},
      {"longrope", kText, scaled("longrope", factors)},
      {"longrope within its length", kText, kRope + Arguments{"model.rope_scaling.type=longrope"} + factors},
      {"window", kText, kRope + Arguments{"model.window_size=8"}},
      {"norm of q and k", kText, {"model.qk_layernorm=true", "model.num_query_groups=1"}},
      {"norm of q and k, rope", kText, kRope + Arguments{"model.qk_layernorm=true"}},
      {"norms without bias", kText, {"model.norm_bias=false"}},
      {"parallel residual", kText, {"model.use_parallel_residual=true"}},
      {"clamped gate", kText, {"model.activation=swiglu_oai"}},
      {"linear attention in every layer", kText, kLinear},
      {"latent", kText, kLatent},
      {"experts", kText, kExperts},
      {"groups of experts", kText, kGroups},
      {"experts beside a shared one", kText,
       kExperts + Arguments{"model.moe_shared_expert_intermediate_size=16"}},
      {"experts with capacity", kText, kExperts + Arguments{"model.moe_expert_capacity_factor=0.6"}},
      {"experts with a bias", kText, kGroups + Arguments{"model.moe_router_enable_expert_bias=true"}},
      {"experts with a loss", kText, kExperts + Arguments{"model.moe_aux_loss_coeff=0.1"}},
      {"mup", kText, {"model.use_mup=true", "model.mup_base_hidden_size=16"}},
      {"bf16", kText, {"trainer.precision=bf16"}},
      {"fp8", kText, kFp8},
      {"fp8 delayed", kText, kDelayed},
      {"fp8 but for the ends", kText,
       kFp8 + Arguments{"model.first_last_layers_bf16=true", "model.num_layers=4"}},
      {"fp16", kText, kFp16},
      {"fp16 that overflows", kText, kFp16 + Arguments{"model.native_amp_init_scale=1e30"}},
      {"recomputed",
       kText,
       {"model.num_layers=4", "model.activations_checkpoint_granularity=full",
        "model.activations_checkpoint_method=block", "model.activations_checkpoint_num_layers=2"}},
      {"offloaded", kText, {"model.num_layers=4", "model.cpu_offloading=true"}},
      {"sgd", kText, {"model.optim.name=sgd"}},
      {"muon", kText, kMuon},
      {"growing decay",
       kText,
       {"model.optim.weight_decay_incr_style=linear", "model.optim.start_weight_decay=0.1",
        "model.optim.end_weight_decay=0.5"}},
      {"wsd", kText, kWsd},
      {"2 replicas", kText, kReplicas},
      {"2 replicas, zero 2", kText, kReplicas + Arguments{"model.zero_stage=2", "model.micro_batch_size=1"}},
      {"2 tensor ranks", kText, {"--ranks", "2", "model.tensor_model_parallel_size=2"}},
      {"2 stages", kText, kStages},
      {"2 stages of 2 chunks", kText,
       kStages + Arguments{"model.virtual_pipeline_model_parallel_size=2", "model.micro_batch_size=1"}},
      {"2 context ranks", kText, {"--ranks", "2", "model.context_parallel_size=2"}},
      {"4 context ranks",
       kText,
       {"--ranks", "4", "model.context_parallel_size=4", "model.cp_comm_type=a2a+p2p",
        "model.hierarchical_context_parallel_sizes=[2,2]"}},
      {"experts of 2 ranks", kText, kExperts + kReplicas},
      {"experts spread over 2 ranks", kText,
       kExperts + kReplicas + Arguments{"model.expert_model_parallel_size=2"}},
      {"experts of 2 tensor ranks", kText,
       kExperts + Arguments{"--ranks", "2", "model.tensor_model_parallel_size=2"}},
      {"chats", kChats},
      {"p-tuning",
       kChats,
       {"restore_from_path=../first", "model.encoder_seq_length=32", "model.peft.peft_scheme=ptuning",
        "model.peft.p_tuning.virtual_tokens=3", "model.peft.p_tuning.bottleneck_dim=8",
        "model.peft.p_tuning.encoder_type=tpmlp"}},
      {"p-tuning by LSTM",
       kChats,
       {"restore_from_path=../first", "model.encoder_seq_length=32", "model.peft.peft_scheme=ptuning",
        "model.peft.p_tuning.virtual_tokens=3", "model.peft.p_tuning.bottleneck_dim=8",
        "model.peft.p_tuning.encoder_type=lstm"}},
      {"chats in NeMo's files",
       kChats,
       {"model.data.data_prefix=null", "model.data.train_ds.file_names=[../chats.jsonl]"}},
      {"chats with a record that cannot be used",
       kChats,
       {"model.data=../faulty.jsonl", "model.data.skip_bad_records=true"}},
      {"conservative preferences",
       kPreferences,
       {"model.objective.name=dpo", "model.objective.label_smoothing=0.2"}},
      {"simple preferences", kPreferences, {"model.objective.name=simpo"}},
      {"judged answers", kJudged, {"model.objective.name=kto"}},
      {"texts that belong together", kCompared, bert},
      {"gpt whose teacher was kept", kKept},
      {"gpt that is taught", kText, {"model.distill.teacher=../first"}},
      {"gpt that is taught by a mixture",
       kText,
       {"model.distill.teacher=../first", "model.distill.loss=jsd"}},
      {"rewards",
       kPreferences,
       {"model.objective.name=reward", "model.task=sequence_classification", "model.labels=[reward]"}},
      {"bert", kSentences, bert},
      {"bert of tokens alone", kSentences, bert + Arguments{"model.bert.binary_head=false"}},
      {"bert, norms before", kSentences, bert + Arguments{"model.bert.pre_norm=true"}},
      {"bert, classes", kClasses, bert},
      {"bert, answers", kAnswers, bert + Arguments{"model.task=question_answering"}},
      {"t5", kPairs, t5},
      {"t5 of sentences", kToldSentences,
       t5 + Arguments{"model.encoder_seq_length=96", "model.t5.seq_length_dec=32"}},
      {"t5 of 2 stages", kPairs,
       t5 + Arguments{"--ranks", "2", "model.pipeline_model_parallel_size=2", "model.num_layers=6",
                      "model.t5.encoder_layers=2"}},
  };
}

}  // namespace stoa::keys
