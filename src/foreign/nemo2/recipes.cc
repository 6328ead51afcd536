// The pre-training recipes of nemo.collections.llm (2.5), `nemo llm pretrain --factory NAME`: what they set,
// with the defaults of their arguments. The corpus of tests/fixtures/nemo2, which tests/oracle/nemo2_facts.py
// makes by running the recipes, tests them.
#include <algorithm>

#include "foreign/nemo2/keys.h"
#include "foreign/nemo2/recipe.h"

namespace stoa::foreign {
namespace {

struct NamedRecipe {
  std::string_view name, settings;
};

// What most of them set; a recipe's own settings come after it.
constexpr std::string_view kCommon =
    "data.micro_batch_size=1 data.seq_length=4096 optim.config.adam_beta1=0.9 optim.config.adam_beta2=0.95 "
    "optim.config.adam_eps=1e-05 optim.config.bf16=true optim.config.clip_grad=1 optim.config.fp16=false "
    "optim.config.lr=0.0003 optim.config.optimizer=adam optim.config.use_distributed_optimizer=true "
    "optim.config.weight_decay=0.1 optim.lr_scheduler._target_=CosineAnnealingScheduler "
    "optim.lr_scheduler.constant_steps=0 optim.lr_scheduler.min_lr=2.9999999999999997e-05 "
    "optim.lr_scheduler.warmup_steps=2000 trainer.accumulate_grad_batches=1 trainer.devices=8 "
    "trainer.limit_val_batches=32 trainer.log_every_n_steps=10 trainer.num_nodes=1 "
    "trainer.plugins.grad_reduce_in_fp32=true trainer.plugins.precision=bf16-mixed "
    "trainer.strategy.context_parallel_size=1 trainer.strategy.ddp.grad_reduce_in_fp32=true "
    "trainer.strategy.ddp.overlap_grad_reduce=true trainer.strategy.pipeline_model_parallel_size=1 "
    "trainer.strategy.sequence_parallel=false trainer.val_check_interval=2000";

constexpr NamedRecipe kRecipes[] = {
    {"baichuan2_7b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Baichuan2Config7B "
     "trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=1"},
    {"bert_110m",
     "data.global_batch_size=32 data.micro_batch_size=2 data.seq_length=512 "
     "model.config._target_=MegatronBertBaseConfig optim.config.lr=0.0001 optim.lr_scheduler.min_lr=1e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=1168251 "
     "trainer.strategy.ddp.overlap_grad_reduce=false trainer.strategy.tensor_model_parallel_size=1"},
    {"bert_340m",
     "data.global_batch_size=32 data.micro_batch_size=2 data.seq_length=512 "
     "model.config._target_=MegatronBertLargeConfig optim.config.lr=0.0001 optim.lr_scheduler.min_lr=1e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=1168251 "
     "trainer.strategy.ddp.overlap_grad_reduce=false trainer.strategy.tensor_model_parallel_size=1"},
    {"chatglm3_6b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=ChatGLM3Config6B "
     "trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=1"},
    {"deepseek_v2",
     "data.global_batch_size=512 model.config._target_=DeepSeekV2Config "
     "model.config.recompute_granularity=full model.config.recompute_method=uniform "
     "model.config.recompute_num_layers=1 trainer.max_steps=1168251 trainer.num_nodes=16 "
     "trainer.strategy.expert_model_parallel_size=32 trainer.strategy.pipeline_model_parallel_size=4 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=1"},
    {"deepseek_v2_lite",
     "data.global_batch_size=512 model.config._target_=DeepSeekV2LiteConfig trainer.max_steps=1168251 "
     "trainer.strategy.expert_model_parallel_size=8 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=1"},
    {"deepseek_v3",
     "data.global_batch_size=4096 model.config._target_=DeepSeekV3Config "
     "model.config.mtp_loss_scaling_factor=0.1 model.config.mtp_num_layers=1 "
     "model.config.recompute_granularity=selective model.config.recompute_modules=[mla_up_proj,layernorm] "
     "optim.config.exp_avg_dtype=torch.bfloat16 optim.config.exp_avg_sq_dtype=torch.bfloat16 "
     "optim.config.main_grads_dtype=torch.bfloat16 optim.config.use_precision_aware_optimizer=true "
     "trainer.max_steps=1168251 trainer.num_nodes=128 trainer.strategy.ddp.grad_reduce_in_fp32=false "
     "trainer.strategy.expert_model_parallel_size=64 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.num_layers_in_first_pipeline_stage=3 "
     "trainer.strategy.num_layers_in_last_pipeline_stage=2 "
     "trainer.strategy.pipeline_model_parallel_size=16 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=2"},
    {"gemma2_27b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Gemma2Config27B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=1168251 "
     "trainer.num_nodes=2 trainer.strategy.pipeline_model_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=500"},
    {"gemma2_2b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Gemma2Config2B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=1168251 "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=500"},
    {"gemma2_9b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Gemma2Config9B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=1168251 "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=500"},
    {"gemma3_1b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Gemma3Config1B "
     "model.config.seq_length=8192 trainer.max_steps=10 trainer.strategy.tensor_model_parallel_size=1"},
    {"gemma_2b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=GemmaConfig2B "
     "trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=1"},
    {"gemma_7b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=GemmaConfig7B "
     "trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=2"},
    {"gpt3_175b",
     "data.global_batch_size=2048 data.micro_batch_size=2 data.seq_length=2048 "
     "model.config._target_=GPTConfig175B optim.config.lr=9e-05 optim.lr_scheduler.min_lr=9e-06 "
     "trainer.max_steps=1168251 trainer.strategy.pipeline_model_parallel_size=8 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=4 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=6"},
    {"hyena_1b",
     "data.global_batch_size=8 data.seq_length=8192 data.tokenizer.library=byte-level "
     "model.config._target_=Hyena1bConfig model.config.seq_length=8192 model.tokenizer.library=byte-level "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=2500 trainer.limit_val_batches=10 "
     "trainer.max_steps=100 trainer.plugins.fp8=hybrid trainer.plugins.fp8_amax_compute_algo=max "
     "trainer.plugins.fp8_amax_history_len=16 trainer.plugins.fp8_param_gather=true "
     "trainer.plugins.fp8_recipe=delayed trainer.strategy.ddp.grad_reduce_in_fp32=false "
     "trainer.strategy.ddp.use_distributed_optimizer=true trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=100"},
    {"hyena_40b",
     "data.global_batch_size=8 data.seq_length=8192 data.tokenizer.library=byte-level "
     "model.config._target_=Hyena40bConfig model.config.seq_length=8192 model.tokenizer.library=byte-level "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=2500 trainer.limit_val_batches=10 "
     "trainer.max_steps=100 trainer.num_nodes=4 trainer.plugins.fp8=hybrid "
     "trainer.plugins.fp8_amax_compute_algo=max trainer.plugins.fp8_amax_history_len=16 "
     "trainer.plugins.fp8_param_gather=true trainer.plugins.fp8_recipe=delayed "
     "trainer.strategy.context_parallel_size=2 trainer.strategy.ddp.grad_reduce_in_fp32=false "
     "trainer.strategy.ddp.use_distributed_optimizer=true trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=100"},
    {"hyena_7b",
     "data.global_batch_size=8 data.seq_length=8192 data.tokenizer.library=byte-level "
     "model.config._target_=Hyena7bConfig model.config.seq_length=8192 model.tokenizer.library=byte-level "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=2500 trainer.limit_val_batches=10 "
     "trainer.max_steps=100 trainer.plugins.fp8=hybrid trainer.plugins.fp8_amax_compute_algo=max "
     "trainer.plugins.fp8_amax_history_len=16 trainer.plugins.fp8_param_gather=true "
     "trainer.plugins.fp8_recipe=delayed trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=false trainer.strategy.ddp.use_distributed_optimizer=true "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=4 "
     "trainer.val_check_interval=100"},
    {"llama2_7b",
     "data.global_batch_size=512 model.config._target_=Llama2Config7B trainer.max_steps=1168251 "
     "trainer.strategy.tensor_model_parallel_size=2"},
    {"llama31_405b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama31Config405B "
     "model.config.seq_length=8192 trainer.max_steps=1168251 "
     "trainer.strategy.account_for_embedding_in_pipeline_split=true "
     "trainer.strategy.account_for_loss_in_pipeline_split=true trainer.strategy.context_parallel_size=4 "
     "trainer.strategy.pipeline_model_parallel_size=8 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=8 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=2"},
    {"llama31_70b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama31Config70B "
     "model.config.seq_length=8192 trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.pipeline_model_parallel_size=4 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=5"},
    {"llama31_8b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama31Config8B "
     "model.config.seq_length=8192 trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=1"},
    {"llama31_nemotron_70b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama31Nemotron70BConfig "
     "model.config.seq_length=8192 trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.pipeline_model_parallel_size=4 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=5"},
    {"llama31_nemotron_nano_8b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama31NemotronNano8BConfig "
     "model.config.seq_length=8192 trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=1"},
    {"llama32_1b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama32Config1B "
     "model.config.seq_length=8192 trainer.max_steps=1168251 trainer.strategy.tensor_model_parallel_size=1"},
    {"llama32_3b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama32Config3B "
     "model.config.seq_length=8192 trainer.max_steps=1168251 trainer.strategy.tensor_model_parallel_size=1"},
    {"llama3_70b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama3Config70B "
     "trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.pipeline_model_parallel_size=4 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=5"},
    {"llama3_70b_16k",
     "data.global_batch_size=512 data.seq_length=16384 model.config._target_=Llama3Config70B "
     "model.config.seq_length=16384 trainer.max_steps=1168251 trainer.num_nodes=4 "
     "trainer.strategy.context_parallel_size=2 trainer.strategy.pipeline_model_parallel_size=2 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=8"},
    {"llama3_70b_64k",
     "data.global_batch_size=512 data.seq_length=65536 model.config._target_=Llama3Config70B "
     "model.config.seq_length=65536 trainer.max_steps=1168251 trainer.num_nodes=32 "
     "trainer.strategy.context_parallel_size=8 trainer.strategy.pipeline_model_parallel_size=4 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=8"},
    {"llama3_8b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama3Config8B "
     "trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.tensor_model_parallel_size=1"},
    {"llama3_8b_128k",
     "data.global_batch_size=512 data.seq_length=131072 model.config._target_=Llama3Config8B "
     "model.config.seq_length=131072 trainer.max_steps=1168251 trainer.num_nodes=8 "
     "trainer.strategy.context_parallel_size=8 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.pipeline_model_parallel_size=2 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4"},
    {"llama3_8b_16k",
     "data.global_batch_size=512 data.seq_length=16384 model.config._target_=Llama3Config8B "
     "model.config.seq_length=16384 trainer.max_steps=1168251 trainer.num_nodes=2 "
     "trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.pipeline_model_parallel_size=2 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4"},
    {"llama3_8b_64k",
     "data.global_batch_size=512 data.seq_length=65536 model.config._target_=Llama3Config8B "
     "model.config.seq_length=65536 trainer.max_steps=1168251 trainer.num_nodes=4 "
     "trainer.strategy.context_parallel_size=4 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.pipeline_model_parallel_size=2 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4"},
    {"llama4_e128",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama4Experts128Config "
     "trainer.max_steps=1168251 trainer.num_nodes=64 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=128 trainer.strategy.expert_tensor_parallel_size=4 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=4"},
    {"llama4_e16",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=Llama4Experts16Config "
     "trainer.max_steps=1168251 trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=16 trainer.strategy.expert_tensor_parallel_size=4 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=4"},
    {"mamba2_130m",
     "data.global_batch_size=8 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=EleutherAI/gpt-neox-20b data.tokenizer.use_fast=true "
     "model.config._target_=BaseMambaConfig130M model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=EleutherAI/gpt-neox-20b model.tokenizer.use_fast=true "
     "trainer.max_steps=100 trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=100"},
    {"mamba2_1_3b",
     "data.global_batch_size=8 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=EleutherAI/gpt-neox-20b data.tokenizer.use_fast=true "
     "model.config._target_=BaseMambaConfig1_3B model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=EleutherAI/gpt-neox-20b model.tokenizer.use_fast=true trainer.devices=1 "
     "trainer.max_steps=100 trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=100"},
    {"mamba2_2_7b",
     "data.global_batch_size=8 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=EleutherAI/gpt-neox-20b data.tokenizer.use_fast=true "
     "model.config._target_=BaseMambaConfig2_7B model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=EleutherAI/gpt-neox-20b model.tokenizer.use_fast=true "
     "trainer.max_steps=100 trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=100"},
    {"mamba2_370m",
     "data.global_batch_size=8 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=EleutherAI/gpt-neox-20b data.tokenizer.use_fast=true "
     "model.config._target_=BaseMambaConfig370M model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=EleutherAI/gpt-neox-20b model.tokenizer.use_fast=true "
     "trainer.max_steps=100 trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=100"},
    {"mamba2_780m",
     "data.global_batch_size=8 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=EleutherAI/gpt-neox-20b data.tokenizer.use_fast=true "
     "model.config._target_=BaseMambaConfig780M model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=EleutherAI/gpt-neox-20b model.tokenizer.use_fast=true "
     "trainer.max_steps=100 trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=100"},
    {"mamba2_8b",
     "data.global_batch_size=8 data.tokenizer.library=megatron "
     "data.tokenizer.model_name=GPTSentencePieceTokenizer data.tokenizer.use_fast=true "
     "model.config._target_=NVIDIAMambaConfig8B model.tokenizer.library=megatron "
     "model.tokenizer.model_name=GPTSentencePieceTokenizer model.tokenizer.use_fast=true "
     "trainer.max_steps=100 trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=100"},
    {"mamba2_hybrid_8b",
     "data.global_batch_size=8 data.tokenizer.library=megatron "
     "data.tokenizer.model_name=GPTSentencePieceTokenizer data.tokenizer.use_fast=true "
     "model.config._target_=NVIDIAMambaHybridConfig8B model.tokenizer.library=megatron "
     "model.tokenizer.model_name=GPTSentencePieceTokenizer model.tokenizer.use_fast=true "
     "trainer.max_steps=100 trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=100"},
    {"mistral_7b",
     "data.global_batch_size=512 model.config._target_=MistralConfig7B trainer.max_steps=100 "
     "trainer.strategy.context_parallel_size=2 trainer.strategy.tensor_model_parallel_size=1"},
    {"mistral_nemo_12b",
     "data.global_batch_size=512 data.seq_length=8192 model.config._target_=MistralNeMoConfig12B "
     "trainer.max_steps=1168251 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=2"},
    {"mixtral_8x22b",
     "data.global_batch_size=512 model.config._target_=MixtralConfig8x22B trainer.max_steps=1168251 "
     "trainer.num_nodes=16 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.expert_model_parallel_size=8 trainer.strategy.pipeline_model_parallel_size=4 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=2 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=14 trainer.plugins.grad_reduce_in_fp32=null"},
    {"mixtral_8x22b_64k",
     "data.global_batch_size=512 data.seq_length=65536 model.config._target_=MixtralConfig8x22B "
     "model.config.seq_length=65536 trainer.max_steps=1168251 trainer.num_nodes=16 "
     "trainer.strategy.context_parallel_size=2 trainer.strategy.expert_model_parallel_size=8 "
     "trainer.strategy.pipeline_model_parallel_size=4 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=2 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=14 trainer.plugins.grad_reduce_in_fp32=null"},
    {"mixtral_8x7b",
     "data.global_batch_size=512 model.config._target_=MixtralConfig8x7B trainer.max_steps=1168251 "
     "trainer.num_nodes=8 trainer.strategy.expert_model_parallel_size=8 "
     "trainer.strategy.pipeline_model_parallel_size=4 trainer.strategy.tensor_model_parallel_size=1 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=8 trainer.plugins.grad_reduce_in_fp32=null"},
    {"mixtral_8x7b_16k",
     "data.global_batch_size=512 data.seq_length=16384 model.config._target_=MixtralConfig8x7B "
     "model.config.max_position_embeddings=16384 model.config.seq_length=16384 trainer.max_steps=1168251 "
     "trainer.num_nodes=4 trainer.strategy.context_parallel_size=4 "
     "trainer.strategy.expert_model_parallel_size=1 trainer.strategy.pipeline_model_parallel_size=2 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=4 "
     "trainer.plugins.grad_reduce_in_fp32=null"},
    {"mixtral_8x7b_64k",
     "data.global_batch_size=512 data.seq_length=65536 model.config._target_=MixtralConfig8x7B "
     "model.config.seq_length=65536 trainer.max_steps=1168251 trainer.num_nodes=16 "
     "trainer.strategy.context_parallel_size=4 trainer.strategy.expert_model_parallel_size=1 "
     "trainer.strategy.pipeline_model_parallel_size=4 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.plugins.grad_reduce_in_fp32=null"},
    {"nemotron3_22b",
     "data.global_batch_size=32 model.config._target_=Nemotron3Config22B optim.config.lr=0.0001 "
     "optim.lr_scheduler.min_lr=1e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.pipeline_model_parallel_size=4 trainer.strategy.tensor_model_parallel_size=2 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=10"},
    {"nemotron3_22b_16k",
     "data.global_batch_size=32 data.seq_length=16384 model.config._target_=Nemotron3Config22B "
     "model.config.seq_length=16384 optim.config.lr=0.0001 optim.lr_scheduler.min_lr=1e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.context_parallel_size=2 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4"},
    {"nemotron3_22b_64k",
     "data.global_batch_size=32 data.seq_length=65536 model.config._target_=Nemotron3Config22B "
     "model.config.seq_length=65536 optim.config.lr=0.0001 optim.lr_scheduler.min_lr=1e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 trainer.num_nodes=4 "
     "trainer.strategy.context_parallel_size=4 trainer.strategy.pipeline_model_parallel_size=2 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=4"},
    {"nemotron3_4b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Nemotron3Config4B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=1168251 "
     "trainer.strategy.tensor_model_parallel_size=2"},
    {"nemotron3_8b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Nemotron3Config8B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=2"},
    {"nemotron4_15b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Nemotron4Config15B "
     "optim.config.lr=4.5e-05 optim.lr_scheduler.min_lr=4.5e-05 optim.lr_scheduler.warmup_steps=500 "
     "trainer.max_steps=300000 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4"},
    {"nemotron4_15b_16k",
     "data.global_batch_size=32 data.micro_batch_size=2 data.seq_length=16384 "
     "model.config._target_=Nemotron4Config15B model.config.seq_length=16384 optim.config.lr=4.5e-05 "
     "optim.lr_scheduler.min_lr=4.5e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.context_parallel_size=2 trainer.strategy.pipeline_model_parallel_size=2 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=2"},
    {"nemotron4_15b_64k",
     "data.global_batch_size=32 data.micro_batch_size=2 data.seq_length=65536 "
     "model.config._target_=Nemotron4Config15B model.config.seq_length=65536 optim.config.lr=4.5e-05 "
     "optim.lr_scheduler.min_lr=4.5e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.num_nodes=4 trainer.strategy.context_parallel_size=4 "
     "trainer.strategy.pipeline_model_parallel_size=2 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4"},
    {"nemotron4_340b",
     "data.global_batch_size=2304 model.config._target_=Nemotron4Config340B optim.config.lr=0.0001 "
     "optim.lr_scheduler.min_lr=1e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=100000 "
     "trainer.num_nodes=768 trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.pipeline_model_parallel_size=12 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=8 "
     "trainer.strategy.virtual_pipeline_model_parallel_size=8"},
    {"nemotron_nano_12b_v2",
     "data.global_batch_size=768 data.seq_length=8192 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=nvidia/NVIDIA-Nemotron-Nano-12B-v2-Base data.tokenizer.use_fast=true "
     "model.config._target_=NemotronNano12Bv2 model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=nvidia/NVIDIA-Nemotron-Nano-12B-v2-Base model.tokenizer.use_fast=true "
     "trainer.max_steps=10 trainer.num_nodes=8 trainer.plugins.first_last_layers_bf16=true "
     "trainer.plugins.fp8=hybrid trainer.plugins.fp8_param_gather=true "
     "trainer.plugins.fp8_recipe=blockwise trainer.plugins.num_layers_at_end_in_bf16=2 "
     "trainer.plugins.num_layers_at_start_in_bf16=2 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4 trainer.val_check_interval=10 "
     "trainer.accumulate_grad_batches=null"},
    {"nemotron_nano_9b_v2",
     "data.global_batch_size=768 data.seq_length=8192 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=nvidia/NVIDIA-Nemotron-Nano-9B-v2-Base data.tokenizer.use_fast=true "
     "model.config._target_=NemotronNano9Bv2 model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=nvidia/NVIDIA-Nemotron-Nano-9B-v2-Base model.tokenizer.use_fast=true "
     "trainer.max_steps=10 trainer.num_nodes=8 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=10 "
     "trainer.accumulate_grad_batches=null"},
    {"nemotronh_47b",
     "data.global_batch_size=768 data.seq_length=8192 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=nvidia/Nemotron-H-47B-Base-8K data.tokenizer.use_fast=true "
     "model.config._target_=NemotronHConfig47B model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=nvidia/Nemotron-H-47B-Base-8K model.tokenizer.use_fast=true "
     "trainer.log_every_n_steps=1 trainer.max_steps=10 trainer.num_nodes=32 "
     "trainer.plugins.first_last_layers_bf16=true trainer.plugins.fp8=hybrid "
     "trainer.plugins.fp8_param_gather=true trainer.plugins.fp8_recipe=tensorwise "
     "trainer.plugins.num_layers_at_end_in_bf16=2 trainer.plugins.num_layers_at_start_in_bf16=2 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=8 "
     "trainer.val_check_interval=10 trainer.accumulate_grad_batches=null"},
    {"nemotronh_4b",
     "data.global_batch_size=768 data.seq_length=8192 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=nvidia/Nemotron-H-4B-Base-8K data.tokenizer.use_fast=true "
     "model.config._target_=NemotronHConfig4B model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=nvidia/Nemotron-H-4B-Base-8K model.tokenizer.use_fast=true "
     "trainer.max_steps=10 trainer.num_nodes=8 trainer.strategy.tensor_model_parallel_size=1 "
     "trainer.val_check_interval=10 trainer.accumulate_grad_batches=null"},
    {"nemotronh_56b",
     "data.global_batch_size=768 data.seq_length=8192 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=nvidia/Nemotron-H-8B-Base-8K data.tokenizer.use_fast=true "
     "model.config._target_=NemotronHConfig56B model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=nvidia/Nemotron-H-8B-Base-8K model.tokenizer.use_fast=true "
     "trainer.log_every_n_steps=1 trainer.max_steps=10 trainer.num_nodes=32 "
     "trainer.plugins.first_last_layers_bf16=true trainer.plugins.fp8=hybrid "
     "trainer.plugins.fp8_param_gather=true trainer.plugins.fp8_recipe=tensorwise "
     "trainer.plugins.num_layers_at_end_in_bf16=2 trainer.plugins.num_layers_at_start_in_bf16=2 "
     "trainer.strategy.sequence_parallel=true trainer.strategy.tensor_model_parallel_size=8 "
     "trainer.val_check_interval=10 trainer.accumulate_grad_batches=null"},
    {"nemotronh_8b",
     "data.global_batch_size=768 data.seq_length=8192 data.tokenizer.library=huggingface "
     "data.tokenizer.model_name=nvidia/Nemotron-H-8B-Base-8K data.tokenizer.use_fast=true "
     "model.config._target_=NemotronHConfig8B model.tokenizer.library=huggingface "
     "model.tokenizer.model_name=nvidia/Nemotron-H-8B-Base-8K model.tokenizer.use_fast=true "
     "trainer.max_steps=10 trainer.num_nodes=8 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=10 "
     "trainer.accumulate_grad_batches=null"},
    {"phi3_mini_4k_instruct",
     "data.global_batch_size=512 model.config._target_=Phi3ConfigMini trainer.devices=1 "
     "trainer.max_steps=1168251 trainer.strategy.tensor_model_parallel_size=1"},
    {"qwen25_14b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen25Config14B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=4 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen25_1p5b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen25Config1P5B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen25_32b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen25Config32B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.num_nodes=2 trainer.strategy.pipeline_model_parallel_size=2 "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen25_500m",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen25Config500M "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen25_72b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen25Config72B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.num_nodes=4 trainer.strategy.pipeline_model_parallel_size=4 "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen25_7b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen25Config7B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen2_1p5b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen2Config1P5B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen2_500m",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen2Config500M "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen2_72b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen2Config72B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.num_nodes=4 trainer.strategy.pipeline_model_parallel_size=4 "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen2_7b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen2Config7B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=500 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"qwen3_14b",
     "data.global_batch_size=32 data.micro_batch_size=2 "
     "data.tokenizer.pretrained_model_name=Qwen/Qwen3-14B model.config._target_=Qwen3Config14B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=1 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.tensor_model_parallel_size=8 trainer.val_check_interval=500"},
    {"qwen3_1p7b",
     "data.global_batch_size=32 data.micro_batch_size=2 "
     "data.tokenizer.pretrained_model_name=Qwen/Qwen3-1.7B model.config._target_=Qwen3Config1P7B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=1 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=500"},
    {"qwen3_235b_a22b",
     "data.global_batch_size=32 data.tokenizer.pretrained_model_name=Qwen/Qwen3-235B-A22B "
     "model.config._target_=Qwen3Config235B_A22B optim.lr_scheduler.min_lr=3e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 trainer.num_nodes=16 "
     "trainer.strategy.account_for_embedding_in_pipeline_split=true "
     "trainer.strategy.account_for_loss_in_pipeline_split=true trainer.strategy.context_parallel_size=2 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=8 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.pipeline_model_parallel_size=16 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4 trainer.val_check_interval=500"},
    {"qwen3_30b_a3b",
     "data.global_batch_size=32 data.micro_batch_size=2 "
     "data.tokenizer.pretrained_model_name=Qwen/Qwen3-30B-A3B model.config._target_=Qwen3Config30B_A3B "
     "model.config.recompute_granularity=full model.config.recompute_method=uniform "
     "model.config.recompute_num_layers=1 optim.lr_scheduler.min_lr=3e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=4 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.pipeline_model_parallel_size=2 trainer.strategy.sequence_parallel=true "
     "trainer.strategy.tensor_model_parallel_size=4 trainer.val_check_interval=500"},
    {"qwen3_32b",
     "data.global_batch_size=32 data.micro_batch_size=2 "
     "data.tokenizer.pretrained_model_name=Qwen/Qwen3-32B model.config._target_=Qwen3Config32B "
     "model.config.recompute_granularity=full model.config.recompute_method=uniform "
     "model.config.recompute_num_layers=1 optim.lr_scheduler.min_lr=3e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 trainer.num_nodes=2 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=1 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.pipeline_model_parallel_size=2 trainer.strategy.tensor_model_parallel_size=8 "
     "trainer.val_check_interval=500"},
    {"qwen3_4b",
     "data.global_batch_size=32 data.micro_batch_size=2 data.tokenizer.pretrained_model_name=Qwen/Qwen3-4B "
     "model.config._target_=Qwen3Config4B optim.lr_scheduler.min_lr=3e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=1 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=500"},
    {"qwen3_600m",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Qwen3Config600M "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=1 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.tensor_model_parallel_size=1 trainer.val_check_interval=500"},
    {"qwen3_8b",
     "data.global_batch_size=32 data.micro_batch_size=2 data.tokenizer.pretrained_model_name=Qwen/Qwen3-8B "
     "model.config._target_=Qwen3Config8B optim.lr_scheduler.min_lr=3e-05 "
     "optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.ddp.data_parallel_sharding_strategy=optim_grads_params "
     "trainer.strategy.expert_model_parallel_size=1 trainer.strategy.expert_tensor_parallel_size=1 "
     "trainer.strategy.tensor_model_parallel_size=4 trainer.val_check_interval=500"},
    {"starcoder2_15b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Starcoder2Config15B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.pipeline_model_parallel_size=2 trainer.strategy.tensor_model_parallel_size=4 "
     "trainer.val_check_interval=1000 trainer.strategy.ddp.grad_reduce_in_fp32=null "
     "trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"starcoder2_3b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Starcoder2Config3B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=1000 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"starcoder2_7b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=Starcoder2Config7B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.tensor_model_parallel_size=2 trainer.val_check_interval=1000 "
     "trainer.strategy.ddp.grad_reduce_in_fp32=null trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"starcoder_15b",
     "data.global_batch_size=32 data.micro_batch_size=2 model.config._target_=StarcoderConfig15B "
     "optim.lr_scheduler.min_lr=3e-05 optim.lr_scheduler.warmup_steps=500 trainer.max_steps=300000 "
     "trainer.strategy.pipeline_model_parallel_size=8 trainer.strategy.tensor_model_parallel_size=1 "
     "trainer.val_check_interval=1000 trainer.strategy.ddp.grad_reduce_in_fp32=null "
     "trainer.strategy.ddp.overlap_grad_reduce=null"},
    {"t5_11b",
     "data.global_batch_size=1920 data.micro_batch_size=24 data.seq_length=512 data.seq_length_dec=128 "
     "model.config._target_=T5Config11B optim.config.lr=0.0001 optim.config.weight_decay=0.01 "
     "optim.lr_scheduler._target_=WarmupAnnealingScheduler optim.lr_scheduler.max_steps=1000000 "
     "optim.lr_scheduler.min_lr=1e-05 optim.lr_scheduler.warmup_ratio=0.01 trainer.max_steps=1000000 "
     "trainer.num_nodes=20 trainer.strategy.tensor_model_parallel_size=4 optim.config.adam_beta1=null "
     "optim.config.adam_beta2=null optim.config.adam_eps=null optim.config.clip_grad=null "
     "optim.config.fp16=null optim.lr_scheduler.constant_steps=null optim.lr_scheduler.warmup_steps=null"},
    {"t5_220m",
     "data.global_batch_size=512 data.seq_length=512 data.seq_length_dec=128 "
     "model.config._target_=T5Config220M optim.config.lr=0.0001 optim.config.weight_decay=0.01 "
     "optim.lr_scheduler._target_=WarmupAnnealingScheduler optim.lr_scheduler.max_steps=1000000 "
     "optim.lr_scheduler.min_lr=1e-05 optim.lr_scheduler.warmup_ratio=0.01 trainer.max_steps=1000000 "
     "trainer.strategy.tensor_model_parallel_size=1 optim.config.adam_beta1=null "
     "optim.config.adam_beta2=null optim.config.adam_eps=null optim.config.clip_grad=null "
     "optim.config.fp16=null optim.lr_scheduler.constant_steps=null optim.lr_scheduler.warmup_steps=null"},
    {"t5_3b",
     "data.global_batch_size=1920 data.micro_batch_size=24 data.seq_length=512 data.seq_length_dec=128 "
     "model.config._target_=T5Config3B optim.config.lr=0.0001 optim.config.weight_decay=0.01 "
     "optim.lr_scheduler._target_=WarmupAnnealingScheduler optim.lr_scheduler.max_steps=1000000 "
     "optim.lr_scheduler.min_lr=1e-05 optim.lr_scheduler.warmup_ratio=0.01 trainer.max_steps=1000000 "
     "trainer.num_nodes=20 trainer.strategy.tensor_model_parallel_size=2 optim.config.adam_beta1=null "
     "optim.config.adam_beta2=null optim.config.adam_eps=null optim.config.clip_grad=null "
     "optim.config.fp16=null optim.lr_scheduler.constant_steps=null optim.lr_scheduler.warmup_steps=null"},
};

}  // namespace

std::optional<config::Node> nemo2_recipe(std::string_view name) {
  const auto* it = std::find_if(std::begin(kRecipes), std::end(kRecipes),
                                [&](const NamedRecipe& r) { return r.name == name; });
  if (it == std::end(kRecipes)) return {};
  config::Node root = config::Node::map();
  for (std::string_view rest : {kCommon, it->settings}) {
    while (!rest.empty()) {
      const auto end = std::min(rest.find(' '), rest.size()), equals = rest.find('=');
      set_nemo2_value(root, rest.substr(0, equals), rest.substr(equals + 1, end - equals - 1));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  return root;
}

std::vector<std::string> nemo2_recipe_names() {
  std::vector<std::string> names;
  for (const NamedRecipe& r : kRecipes) names.emplace_back(r.name);
  return names;
}

}  // namespace stoa::foreign
