#include "foreign/nemo_keys.h"

#include <array>

namespace stoa::foreign {
namespace {

// The launcher (jobs, containers, classes of PyTorch Lightning): nothing of it reaches the mathematics.
constexpr std::string_view kJob = "for NeMo's launcher: Stoa does not start cluster jobs from this file";
constexpr std::string_view kLightning = "for PyTorch Lightning, which Stoa does not use";
constexpr std::string_view kFusion = "kernel fusion in NeMo; no effect on results";
constexpr std::string_view kOverlap = "how NeMo overlaps communication; no effect on results";
constexpr std::string_view kSaving = "Stoa saves a Hugging Face model and its state, in the background";
constexpr std::string_view kMemory = "how NeMo lays out memory; no effect on results";
constexpr std::string_view kFp8Format = "model.fp8 names the format: e4m3 or hybrid";

constexpr config::ForeignKey kKeys[] = {
    // launcher and Hydra
    {"run.*", kJob},
    {"hydra.*", "for Hydra, which Stoa does not use"},
    {"cluster.*", kJob},
    {"defaults", "Hydra's list of files; write 'base: FILE' instead",
     "_self_,optional tp_overlap@model.ub_tp_comm_overlap_cfg,null"},
    // trainer
    {"trainer.accelerator", "the backend is chosen by the program"},
    {"trainer.strategy", kLightning},
    {"trainer.logger", kLightning},
    {"trainer.plugins", kLightning},
    {"trainer.callbacks", kLightning},
    {"trainer.enable_checkpointing", kLightning},
    {"trainer.enable_progress_bar", kLightning},
    {"trainer.enable_model_summary", kLightning},
    {"trainer.replace_sampler_ddp", kLightning},
    {"trainer.use_distributed_sampler", kLightning},
    {"trainer.num_sanity_val_steps", kLightning},
    {"trainer.benchmark", kLightning},
    {"trainer.limit_test_batches", "training does not run a test set; use 'stoa eval'"},
    {"trainer.accumulate_grad_batches", "accumulation follows from global_batch_size / micro_batch_size",
     "1,null"},
    // exp_manager
    {"exp_manager.create_wandb_logger", "Stoa sends nothing to a service", "false,null"},
    {"exp_manager.wandb_logger_kwargs.*", "Stoa sends nothing to a service"},
    {"exp_manager.log_step_timing", "every step is timed"},
    {"exp_manager.step_timing_kwargs.*", "every step is timed"},
    {"exp_manager.seconds_to_sleep", kLightning},
    {"exp_manager.use_datetime_version", "the run directory is set by explicit_log_dir"},
    {"exp_manager.checkpoint_callback_params.dirpath", "checkpoints are in the run directory", "null"},
    {"exp_manager.checkpoint_callback_params.monitor", "the best checkpoints are those of lowest val_loss",
     "val_loss,reduced_val_loss,null"},
    {"exp_manager.checkpoint_callback_params.mode", "the best checkpoints are those of lowest val_loss",
     "min,null"},
    {"exp_manager.checkpoint_callback_params.filename", "checkpoints are named step-NNNNNNN"},
    {"exp_manager.checkpoint_callback_params.save_last", "the newest checkpoint is always kept", "true,null"},
    {"exp_manager.checkpoint_callback_params.always_save_nemo", kSaving},
    {"exp_manager.checkpoint_callback_params.save_nemo_on_train_end", kSaving},
    {"exp_manager.checkpoint_callback_params.save_best_model", kSaving},
    {"exp_manager.checkpoint_callback_params.async_save", kSaving},
    {"exp_manager.checkpoint_callback_params.model_parallel_size", "follows from the degrees under model"},
    // model: parallelism and communication
    {"model.resume_from_checkpoint",
     "resuming is exp_manager.resume_if_exists; a checkpoint to start from is restore_from_path", "null"},
    {"model.overlap_p2p_comm", kOverlap},
    {"model.batch_p2p_comm", kOverlap},
    {"model.sync_batch_comm", kOverlap},
    {"model.ub_tp_comm_overlap", kOverlap},
    {"model.ub_tp_comm_overlap_cfg.*", kOverlap},
    {"model.nccl_communicator_config_path", kOverlap},
    {"model.fsdp", "sharding of parameters over ranks: write zero_stage: 3", "false,null"},
    {"model.fsdp_sharding_strategy", "detail of fsdp, which is off"},
    {"model.fsdp_grad_reduce_dtype", "detail of fsdp, which is off"},
    {"model.fsdp_sharded_checkpoint", "detail of fsdp, which is off"},
    {"model.bert_binary_head", "write it as model.bert.binary_head", "null"},
    {"model.pre_process", "follows from the pipeline stage", "true,null"},
    {"model.post_process", "follows from the pipeline stage", "true,null"},
    // model: fusions and memory
    {"model.persist_layer_norm", kFusion},
    {"model.bias_activation_fusion", kFusion},
    {"model.bias_gelu_fusion", kFusion},
    {"model.bias_dropout_add_fusion", kFusion},
    {"model.masked_softmax_fusion", kFusion},
    {"model.apply_rope_fusion", kFusion},
    {"model.cross_entropy_loss_fusion", kFusion},
    {"model.grad_div_ar_fusion", kFusion},
    {"model.gradient_accumulation_fusion", kFusion},
    {"model.gradient_as_bucket_view", kMemory},
    {"model.use_flash_attention", "attention never forms the s x s matrix"},
    {"model.use_cpu_initialization", "initial weights are a function of seed and element, on any device"},
    {"model.num_micro_batches_with_partial_activation_checkpoints",
     "recomputation for some microbatches only", "null"},
    {"model.activations_checkpoint_layers_per_pipeline", "recomputation that differs between stages",
     "0,null"},
    // model: precision
    {"model.megatron_amp_O2",
     "weights, gradients and moments are always kept in fp32 in addition to the compute type"},
    {"model.grad_allreduce_chunk_size_mb", kOverlap},
    {"model.fp16_lm_cross_entropy", "the loss is computed in fp32", "false,null"},
    {"model.attention_softmax_in_fp32", "softmax is always computed in fp32"},
    {"model.sharp", "NVIDIA's network reductions; no effect on results"},
    {"model.mcore_gpt", "a choice of Python class"},
    {"model.transformer_engine", "a choice of Python class"},
    {"model.name", "a choice of Python class"},
    {"model.target", "a choice of Python class"},
    {"model.nemo_version", "a note by the writer of the file"},
    {"model.precision", "written by NeMo; trainer.precision is used"},
    {"model.fp8_params", "8-bit weights", "false,null"},
    {"model.fp8_e4m3", kFp8Format},
    {"model.fp8_hybrid", kFp8Format},
    {"model.fp8_interval", "for delayed scaling; scales are updated every step"},
    {"model.reduce_amax", "the amax is always that of the whole tensor"},
    // model: mathematics that this version does not have
    {"model.apply_query_key_layer_scaling",
     "divides and multiplies by the layer number: no effect on exact results"},
    {"model.ffn_dropout", "dropout inside the MLP", "0,null"},
    {"model.headscale", "scales of attention heads", "false,null"},
    {"model.transformer_block_type", "layers are pre-norm", "pre_ln,null"},
    {"model.normalize_attention_scores", "attention is divided by the root of the head size", "true,null"},
    {"model.attention_type", "attention is multi-head self-attention", "multihead,null"},
    {"model.seq_len_interpolation_factor", "write rope_scaling: {type: linear, factor: ...}", "1,null"},
    {"model.openai_gelu", "write activation: gelu_tanh", "false,null"},
    {"model.onnx_safe", "an export option of NeMo"},
    {"model.apply_residual_connection_post_layernorm", "the residual is taken before the norm", "false,null"},
    {"model.layernorm_zero_centered_gamma", "storage of norm weights; no effect on results"},
    {"model.tokenizer.sentencepiece_legacy", "a detail of NeMo's own SentencePiece tokenizer", "false,null"},
    {"model.tokenizer.delimiter", "for tabular tokenizers, which are not supported", "null"},
    {"model.tokenizer.use_fast", "a choice of Python class"},
    // model: the rest
    {"model.apex_transformer_log_level", "of a Python library"},
    {"model.gc_interval", "Python's garbage collector"},
    {"model.nsys_profile.*", "traces are trainer.trace_steps"},
    {"model.log_train_loss", "the loss is always logged", "true,null"},
    {"model.get_attention_mask_from_fusion", kFusion},
    // optimizer: sharding and overlap
    {"model.optim.overlap_param_sync", kOverlap},
    {"model.optim.overlap_param_gather", kOverlap},
    {"model.optim.contiguous_grad_buffer", kMemory},
    {"model.optim.contiguous_param_buffer", kMemory},
    // data
    {"model.data.data_impl", "data is Megatron's memory-mapped .bin and .idx", "mmap,null"},
    {"model.data.num_workers", "one thread reads ahead: a batch costs far less than a step"},
    {"model.data.shuffle_documents", "documents are always shuffled", "true,null"},
    {"model.data.skip_warmup", "files are not read in full in advance"},
    {"model.data.dataloader_type", "samples come once each, in a fixed order", "single,null"},
    {"model.data.validation_drop_last", "a last incomplete batch of validation is dropped", "true,null"},
    {"model.data.no_seqlen_plus_one_input_tokens", "a sample has seq_length + 1 tokens: inputs and targets",
     "false,null"},
    {"model.data.pad_samples_to_global_batch_size", "samples are never padded up to a batch", "false,null"},
    {"model.data.exchange_indices_distributed", "index files are created once and shared"},
    {"model.data.mock_dataset", "for random tokens use 'stoa bench train'", "false,null"},
};

}  // namespace

std::span<const config::ForeignKey> nemo_keys() { return kKeys; }

}  // namespace stoa::foreign
