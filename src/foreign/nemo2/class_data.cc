// Fields of NeMo's model classes, as nemo/collections/llm (2.5) sets them.
#include "foreign/nemo2/keys.h"

namespace stoa::foreign {
namespace {

constexpr Nemo2Class kClasses[] = {
    {"Baichuan2Config",
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false seq_length=4096"},
    {"Baichuan2Config7B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=32 ffn_hidden_size=11008 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope seq_length=4096"},
    {"BaseMambaConfig130M",
     "num_layers=24 hidden_size=768 num_attention_heads=1 ffn_hidden_size=768 hidden_dropout=0 "
     "attention_dropout=0 add_bias_linear=false normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=none seq_length=2048 "
     "make_vocab_size_divisible_by=16 hybrid_override_pattern=MMMMMMMMMMMMMMMMMMMMMMMM "
     "mamba_num_groups=1"},
    {"BaseMambaConfig1_3B",
     "num_layers=48 hidden_size=2048 num_attention_heads=1 ffn_hidden_size=2048 hidden_dropout=0 "
     "attention_dropout=0 add_bias_linear=false normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=none seq_length=2048 "
     "make_vocab_size_divisible_by=16 "
     "hybrid_override_pattern=MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM mamba_num_groups=1"},
    {"BaseMambaConfig2_7B",
     "num_layers=64 hidden_size=2560 num_attention_heads=1 ffn_hidden_size=2560 hidden_dropout=0 "
     "attention_dropout=0 add_bias_linear=false normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=none seq_length=2048 "
     "make_vocab_size_divisible_by=16 "
     "hybrid_override_pattern=MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM "
     "mamba_num_groups=1"},
    {"BaseMambaConfig370M",
     "num_layers=48 hidden_size=1024 num_attention_heads=1 ffn_hidden_size=1024 hidden_dropout=0 "
     "attention_dropout=0 add_bias_linear=false normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=none seq_length=2048 "
     "make_vocab_size_divisible_by=16 "
     "hybrid_override_pattern=MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM mamba_num_groups=1"},
    {"BaseMambaConfig780M",
     "num_layers=48 hidden_size=1536 num_attention_heads=1 ffn_hidden_size=1536 hidden_dropout=0 "
     "attention_dropout=0 add_bias_linear=false normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=none seq_length=2048 "
     "make_vocab_size_divisible_by=16 "
     "hybrid_override_pattern=MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM mamba_num_groups=1"},
    {"BertConfig", "seq_length=512 bert_type=megatron bert_binary_head=true add_lm_head=true"},
    {"ChatGLM2Config6B",
     "num_layers=28 hidden_size=4096 num_attention_heads=32 num_query_groups=2 ffn_hidden_size=13696 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false add_qkv_bias=true gated_linear_unit=true "
     "activation_func=silu rotary_interleaved=true normalization=RMSNorm "
     "share_embeddings_and_output_weights=false make_vocab_size_divisible_by=65024 "
     "position_embedding_type=rope rotary_percent=0.5 seq_length=32768"},
    {"ChatGLM3Config6B",
     "num_layers=28 hidden_size=4096 num_attention_heads=32 num_query_groups=2 ffn_hidden_size=13696 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false add_qkv_bias=true gated_linear_unit=true "
     "activation_func=silu rotary_interleaved=true normalization=RMSNorm "
     "share_embeddings_and_output_weights=false make_vocab_size_divisible_by=65024 "
     "position_embedding_type=rope rotary_percent=0.5 seq_length=8192"},
    {"ChatGLMConfig",
     "num_layers=28 hidden_size=4096 num_attention_heads=32 num_query_groups=2 ffn_hidden_size=13696 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false add_qkv_bias=true gated_linear_unit=true "
     "activation_func=silu rotary_interleaved=true normalization=RMSNorm "
     "share_embeddings_and_output_weights=false make_vocab_size_divisible_by=65024 "
     "position_embedding_type=rope rotary_percent=0.5 seq_length=1024"},
    {"CodeGemmaConfig2B",
     "num_layers=18 hidden_size=2048 num_attention_heads=8 num_query_groups=1 ffn_hidden_size=16384 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false gated_linear_unit=true activation_func=openai_gelu normalization=RMSNorm "
     "position_embedding_type=rope seq_length=8192"},
    {"CodeGemmaConfig7B",
     "num_layers=28 hidden_size=3072 num_attention_heads=16 num_query_groups=16 ffn_hidden_size=24576 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false gated_linear_unit=true activation_func=openai_gelu normalization=RMSNorm "
     "position_embedding_type=rope seq_length=8192"},
    {"CodeLlamaConfig13B",
     "num_layers=40 hidden_size=5120 num_attention_heads=40 num_query_groups=40 ffn_hidden_size=13824 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=16384"},
    {"CodeLlamaConfig34B",
     "num_layers=48 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=22016 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=16384"},
    {"CodeLlamaConfig70B",
     "num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=28672 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096"},
    {"CodeLlamaConfig7B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=32 ffn_hidden_size=11008 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=16384"},
    {"DeepSeekConfig",
     "num_attention_heads=128 kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "add_bias_linear=false gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "qk_layernorm=true multi_latent_attention=true init_method_std=0.006 "
     "moe_router_load_balancing_type=seq_aux_loss moe_router_pre_softmax=true "
     "share_embeddings_and_output_weights=false make_vocab_size_divisible_by=3200 "
     "position_embedding_type=rope seq_length=4096 q_lora_rank=1536 kv_lora_rank=512 qk_head_dim=128 "
     "qk_pos_emb_head_dim=64 v_head_dim=128 rope_type=yarn rotary_scaling_factor=40 "
     "original_max_position_embeddings=4096 beta_fast=32 beta_slow=1 mscale=1 mscale_all_dim=1 "
     "max_position_embeddings=4096"},
    {"DeepSeekV2Config",
     "num_layers=60 hidden_size=5120 num_attention_heads=128 ffn_hidden_size=12288 kv_channels=128 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu num_moe_experts=160 normalization=RMSNorm "
     "qk_layernorm=true multi_latent_attention=true init_method_std=0.006 "
     "moe_shared_expert_intermediate_size=3072 moe_layer_freq=([0]*1+[1]*59) moe_ffn_hidden_size=1536 "
     "moe_router_load_balancing_type=seq_aux_loss moe_router_topk=6 moe_router_num_groups=8 "
     "moe_router_group_topk=3 moe_router_pre_softmax=true moe_router_topk_scaling_factor=16 "
     "moe_aux_loss_coeff=0.001 share_embeddings_and_output_weights=false make_vocab_size_divisible_by=3200 "
     "position_embedding_type=rope seq_length=4096 q_lora_rank=1536 kv_lora_rank=512 qk_head_dim=128 "
     "qk_pos_emb_head_dim=64 v_head_dim=128 rope_type=yarn rotary_scaling_factor=40 "
     "original_max_position_embeddings=4096 beta_fast=32 beta_slow=1 mscale=0.707 mscale_all_dim=0.707 "
     "max_position_embeddings=4096"},
    {"DeepSeekV2LiteConfig",
     "num_layers=27 hidden_size=2048 num_attention_heads=16 ffn_hidden_size=10944 kv_channels=16 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu num_moe_experts=64 normalization=RMSNorm "
     "qk_layernorm=true multi_latent_attention=true init_method_std=0.006 "
     "moe_shared_expert_intermediate_size=2816 moe_layer_freq=([0]*1+[1]*26) moe_ffn_hidden_size=1408 "
     "moe_router_load_balancing_type=seq_aux_loss moe_router_topk=6 moe_router_num_groups=1 "
     "moe_router_group_topk=1 moe_router_pre_softmax=true moe_router_topk_scaling_factor=1 "
     "moe_aux_loss_coeff=0.001 share_embeddings_and_output_weights=false make_vocab_size_divisible_by=3200 "
     "position_embedding_type=rope seq_length=4096 q_lora_rank=null kv_lora_rank=512 qk_head_dim=128 "
     "qk_pos_emb_head_dim=64 v_head_dim=128 rope_type=yarn rotary_scaling_factor=40 "
     "original_max_position_embeddings=4096 beta_fast=32 beta_slow=1 mscale=0.707 mscale_all_dim=0.707 "
     "max_position_embeddings=4096"},
    {"DeepSeekV3Config",
     "num_layers=61 hidden_size=7168 num_attention_heads=128 ffn_hidden_size=18432 kv_channels=128 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu num_moe_experts=256 normalization=RMSNorm "
     "qk_layernorm=true multi_latent_attention=true init_method_std=0.006 "
     "moe_shared_expert_intermediate_size=2048 moe_layer_freq=([0]*3+[1]*58) moe_ffn_hidden_size=2048 "
     "moe_router_load_balancing_type=seq_aux_loss moe_router_topk=8 moe_router_num_groups=8 "
     "moe_router_group_topk=4 moe_router_pre_softmax=true moe_router_topk_scaling_factor=2.5 "
     "moe_router_score_function=sigmoid moe_router_enable_expert_bias=true moe_aux_loss_coeff=0.0001 "
     "share_embeddings_and_output_weights=false make_vocab_size_divisible_by=1280 "
     "position_embedding_type=rope seq_length=4096 q_lora_rank=1536 kv_lora_rank=512 qk_head_dim=128 "
     "qk_pos_emb_head_dim=64 v_head_dim=128 rope_type=yarn rotary_scaling_factor=40 "
     "original_max_position_embeddings=4096 beta_fast=32 beta_slow=1 mscale=1 mscale_all_dim=1 "
     "max_position_embeddings=4096"},
    {"GPTConfig", "seq_length=1024"},
    {"GPTConfig126M",
     "num_layers=12 hidden_size=768 num_attention_heads=12 ffn_hidden_size=3072 seq_length=2048"},
    {"GPTConfig175B",
     "num_layers=96 hidden_size=12288 num_attention_heads=96 ffn_hidden_size=49152 hidden_dropout=0 "
     "attention_dropout=0 layernorm_zero_centered_gamma=true seq_length=2048"},
    {"GPTConfig20B",
     "num_layers=44 hidden_size=6144 num_attention_heads=48 ffn_hidden_size=24576 seq_length=2048"},
    {"GPTConfig40B",
     "num_layers=48 hidden_size=8192 num_attention_heads=64 ffn_hidden_size=32768 seq_length=2048"},
    {"GPTConfig5B",
     "num_layers=24 hidden_size=4096 num_attention_heads=32 ffn_hidden_size=16384 seq_length=2048"},
    {"GPTConfig7B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 ffn_hidden_size=10880 seq_length=2048"},
    {"GPTOSSConfig",
     "hidden_size=2880 num_attention_heads=64 softmax_type=learnable num_query_groups=8 "
     "ffn_hidden_size=2880 kv_channels=64 hidden_dropout=0 attention_dropout=0 gated_linear_unit=true "
     "activation_func=quick_gelu glu_linear_offset=1 activation_func_clamp_value=7 window_size=[128,0] "
     "window_attn_skip_freq=2 normalization=RMSNorm moe_ffn_hidden_size=2880 "
     "moe_router_load_balancing_type=none moe_router_topk=4 share_embeddings_and_output_weights=false "
     "position_embedding_type=yarn rotary_base=150000 seq_length=131072 vocab_size=201088 "
     "rotary_scaling_factor=32 yarn_original_max_position_embeddings=131072 yarn_beta_fast=32 "
     "yarn_beta_slow=1 yarn_correction_range_round_to_int=false"},
    {"GPTOSSConfig120B",
     "num_layers=36 hidden_size=2880 num_attention_heads=64 softmax_type=learnable num_query_groups=8 "
     "ffn_hidden_size=2880 kv_channels=64 hidden_dropout=0 attention_dropout=0 gated_linear_unit=true "
     "activation_func=quick_gelu glu_linear_offset=1 activation_func_clamp_value=7 num_moe_experts=128 "
     "window_size=[128,0] window_attn_skip_freq=2 normalization=RMSNorm moe_ffn_hidden_size=2880 "
     "moe_router_load_balancing_type=none moe_router_topk=4 share_embeddings_and_output_weights=false "
     "position_embedding_type=yarn rotary_base=150000 seq_length=131072 vocab_size=201088 "
     "rotary_scaling_factor=32 yarn_original_max_position_embeddings=131072 yarn_beta_fast=32 "
     "yarn_beta_slow=1 yarn_correction_range_round_to_int=false"},
    {"GPTOSSConfig20B",
     "num_layers=24 hidden_size=2880 num_attention_heads=64 softmax_type=learnable num_query_groups=8 "
     "ffn_hidden_size=2880 kv_channels=64 hidden_dropout=0 attention_dropout=0 gated_linear_unit=true "
     "activation_func=quick_gelu glu_linear_offset=1 activation_func_clamp_value=7 num_moe_experts=32 "
     "window_size=[128,0] window_attn_skip_freq=2 normalization=RMSNorm moe_ffn_hidden_size=2880 "
     "moe_router_load_balancing_type=none moe_router_topk=4 share_embeddings_and_output_weights=false "
     "position_embedding_type=yarn rotary_base=150000 seq_length=131072 vocab_size=201088 "
     "rotary_scaling_factor=32 yarn_original_max_position_embeddings=131072 yarn_beta_fast=32 "
     "yarn_beta_slow=1 yarn_correction_range_round_to_int=false"},
    {"Gemma2Config",
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "layernorm_zero_centered_gamma=true add_bias_linear=false gated_linear_unit=true "
     "activation_func=openai_gelu window_size=[4096,0] normalization=RMSNorm position_embedding_type=rope "
     "seq_length=8192 vocab_size=256000 query_pre_attn_scalar=224 attn_logit_softcapping=50 "
     "final_logit_softcapping=30"},
    {"Gemma2Config27B",
     "num_layers=46 hidden_size=4608 num_attention_heads=32 num_query_groups=16 ffn_hidden_size=36864 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "layernorm_zero_centered_gamma=true add_bias_linear=false gated_linear_unit=true "
     "activation_func=openai_gelu window_size=[4096,0] normalization=RMSNorm position_embedding_type=rope "
     "seq_length=8192 vocab_size=256000 query_pre_attn_scalar=144 attn_logit_softcapping=50 "
     "final_logit_softcapping=30"},
    {"Gemma2Config2B",
     "num_layers=26 hidden_size=2304 num_attention_heads=8 num_query_groups=4 ffn_hidden_size=9216 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "layernorm_zero_centered_gamma=true add_bias_linear=false gated_linear_unit=true "
     "activation_func=openai_gelu window_size=[4096,0] normalization=RMSNorm position_embedding_type=rope "
     "seq_length=8192 vocab_size=256000 query_pre_attn_scalar=256 attn_logit_softcapping=50 "
     "final_logit_softcapping=30"},
    {"Gemma2Config9B",
     "num_layers=42 hidden_size=3584 num_attention_heads=16 num_query_groups=8 ffn_hidden_size=14336 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "layernorm_zero_centered_gamma=true add_bias_linear=false gated_linear_unit=true "
     "activation_func=openai_gelu window_size=[4096,0] normalization=RMSNorm position_embedding_type=rope "
     "seq_length=8192 vocab_size=256000 query_pre_attn_scalar=256 attn_logit_softcapping=50 "
     "final_logit_softcapping=30"},
    {"Gemma3Config",
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false gated_linear_unit=true activation_func=openai_gelu window_size=512 "
     "normalization=RMSNorm position_embedding_type=rope rotary_base=[10000,1000000] seq_length=131072 "
     "vocab_size=262208 interleaved_attn_pattern=[5,1]"},
    {"Gemma3Config12B",
     "num_layers=48 hidden_size=3840 num_attention_heads=16 num_query_groups=8 ffn_hidden_size=15360 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "layernorm_zero_centered_gamma=true add_bias_linear=false gated_linear_unit=true "
     "activation_func=openai_gelu window_size=1024 normalization=RMSNorm position_embedding_type=rope "
     "rotary_base=[10000,1000000] seq_length=131072 vocab_size=262208 interleaved_attn_pattern=[5,1] "
     "rope_scaling_factor=8"},
    {"Gemma3Config1B",
     "num_layers=26 hidden_size=1152 num_attention_heads=4 num_query_groups=1 ffn_hidden_size=6912 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "layernorm_zero_centered_gamma=true add_bias_linear=false gated_linear_unit=true "
     "activation_func=openai_gelu window_size=512 normalization=RMSNorm position_embedding_type=rope "
     "rotary_base=[10000,1000000] seq_length=32768 vocab_size=262144 interleaved_attn_pattern=[5,1] "
     "rope_scaling_factor=1"},
    {"Gemma3Config27B",
     "num_layers=62 hidden_size=5376 num_attention_heads=32 softmax_scale=0.07715167498104596 "
     "num_query_groups=16 ffn_hidden_size=21504 kv_channels=128 hidden_dropout=0 attention_dropout=0 "
     "layernorm_epsilon=1e-06 layernorm_zero_centered_gamma=true add_bias_linear=false "
     "gated_linear_unit=true activation_func=openai_gelu window_size=1024 normalization=RMSNorm "
     "position_embedding_type=rope rotary_base=[10000,1000000] seq_length=131072 vocab_size=262208 "
     "interleaved_attn_pattern=[5,1] rope_scaling_factor=8"},
    {"Gemma3Config4B",
     "num_layers=34 hidden_size=2560 num_attention_heads=8 num_query_groups=4 ffn_hidden_size=10240 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "layernorm_zero_centered_gamma=true add_bias_linear=false gated_linear_unit=true "
     "activation_func=openai_gelu window_size=1024 normalization=RMSNorm position_embedding_type=rope "
     "rotary_base=[10000,1000000] seq_length=131072 vocab_size=262208 interleaved_attn_pattern=[5,1] "
     "rope_scaling_factor=8"},
    {"GemmaConfig",
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false gated_linear_unit=true activation_func=openai_gelu normalization=RMSNorm "
     "position_embedding_type=rope seq_length=8192"},
    {"GemmaConfig2B",
     "num_layers=18 hidden_size=2048 num_attention_heads=8 num_query_groups=1 ffn_hidden_size=16384 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false gated_linear_unit=true activation_func=openai_gelu normalization=RMSNorm "
     "position_embedding_type=rope seq_length=8192"},
    {"GemmaConfig7B",
     "num_layers=28 hidden_size=3072 num_attention_heads=16 num_query_groups=16 ffn_hidden_size=24576 "
     "kv_channels=256 hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false gated_linear_unit=true activation_func=openai_gelu normalization=RMSNorm "
     "position_embedding_type=rope seq_length=8192"},
    {"HuggingFaceBertBaseConfig",
     "num_layers=12 hidden_size=768 num_attention_heads=12 ffn_hidden_size=3072 seq_length=512 "
     "bert_type=huggingface bert_binary_head=true add_lm_head=true"},
    {"HuggingFaceBertConfig", "seq_length=512 bert_type=huggingface bert_binary_head=true add_lm_head=true"},
    {"HuggingFaceBertLargeConfig",
     "num_layers=24 hidden_size=1024 num_attention_heads=16 ffn_hidden_size=4096 seq_length=512 "
     "bert_type=huggingface bert_binary_head=true add_lm_head=true"},
    {"Llama2Config13B",
     "num_layers=40 hidden_size=5120 num_attention_heads=40 num_query_groups=40 ffn_hidden_size=13824 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096"},
    {"Llama2Config70B",
     "num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=28672 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096"},
    {"Llama2Config7B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=32 ffn_hidden_size=11008 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096"},
    {"Llama31Config",
     "num_query_groups=8 hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096 scale_factor=8 low_freq_factor=1 high_freq_factor=4 "
     "old_context_len=8192"},
    {"Llama31Config405B",
     "num_layers=126 hidden_size=16384 num_attention_heads=128 num_query_groups=8 ffn_hidden_size=53248 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=500000 seq_length=131072 scale_factor=8 low_freq_factor=1 "
     "high_freq_factor=4 old_context_len=8192"},
    {"Llama31Config70B",
     "num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=28672 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=500000 seq_length=131072 scale_factor=8 low_freq_factor=1 "
     "high_freq_factor=4 old_context_len=8192"},
    {"Llama31Config8B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=14336 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=500000 seq_length=131072 scale_factor=8 low_freq_factor=1 "
     "high_freq_factor=4 old_context_len=8192"},
    {"Llama31Nemotron70BConfig",
     "num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=28672 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=500000 seq_length=131072 scale_factor=8 low_freq_factor=1 "
     "high_freq_factor=4 old_context_len=8192"},
    {"Llama31NemotronNano8BConfig",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=14336 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=500000 seq_length=131072 scale_factor=8 low_freq_factor=1 "
     "high_freq_factor=4 old_context_len=8192"},
    {"Llama32Config1B",
     "num_layers=16 hidden_size=2048 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=8192 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm position_embedding_type=rope rotary_base=500000 "
     "seq_length=131072 scale_factor=32 low_freq_factor=1 high_freq_factor=4 old_context_len=8192"},
    {"Llama32Config3B",
     "num_layers=28 hidden_size=3072 num_attention_heads=24 num_query_groups=8 ffn_hidden_size=8192 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm position_embedding_type=rope rotary_base=500000 "
     "seq_length=131072 scale_factor=32 low_freq_factor=1 high_freq_factor=4 old_context_len=8192"},
    {"Llama3Config",
     "num_query_groups=8 hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm init_method_std=0.01 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope seq_length=4096"},
    {"Llama3Config70B",
     "num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=28672 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm init_method_std=0.008944 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=500000 "
     "seq_length=8192"},
    {"Llama3Config8B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=14336 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm init_method_std=0.01 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=500000 "
     "seq_length=8192"},
    {"Llama4Config",
     "num_layers=48 hidden_size=5120 num_attention_heads=40 num_query_groups=8 ffn_hidden_size=16384 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu rotary_interleaved=true normalization=RMSNorm qk_l2_norm=true "
     "init_method_std=0.01 moe_shared_expert_intermediate_size=8192 moe_ffn_hidden_size=8192 "
     "moe_router_topk=1 moe_router_score_function=sigmoid moe_apply_probs_on_input=true "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=500000 "
     "seq_length=8192 vocab_size=202048 nope_layer_interval=4 rope_scaling=true rope_scaling_factor=8 "
     "attention_chunk_size=8192"},
    {"Llama4Experts128Config",
     "num_layers=48 hidden_size=5120 num_attention_heads=40 num_query_groups=8 ffn_hidden_size=16384 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu num_moe_experts=128 rotary_interleaved=true normalization=RMSNorm "
     "init_method_std=0.01 moe_shared_expert_intermediate_size=8192 moe_layer_freq=([0]*1+[1]*47) "
     "moe_ffn_hidden_size=8192 moe_router_topk=1 moe_router_score_function=sigmoid "
     "moe_apply_probs_on_input=true share_embeddings_and_output_weights=false position_embedding_type=rope "
     "rotary_base=500000 seq_length=8192 vocab_size=202048 nope_layer_interval=4 rope_scaling=false "
     "rope_scaling_factor=8 attention_chunk_size=8192"},
    {"Llama4Experts16Config",
     "num_layers=48 hidden_size=5120 num_attention_heads=40 num_query_groups=8 ffn_hidden_size=16384 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu num_moe_experts=16 rotary_interleaved=true normalization=RMSNorm "
     "qk_l2_norm=true init_method_std=0.01 moe_shared_expert_intermediate_size=8192 "
     "moe_ffn_hidden_size=8192 moe_router_topk=1 moe_router_score_function=sigmoid "
     "moe_apply_probs_on_input=true share_embeddings_and_output_weights=false position_embedding_type=rope "
     "rotary_base=500000 seq_length=8192 vocab_size=202048 nope_layer_interval=4 rope_scaling=true "
     "rope_scaling_factor=8 attention_chunk_size=8192"},
    {"LlamaConfig",
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096"},
    {"MegatronBertBaseConfig",
     "num_layers=12 hidden_size=768 num_attention_heads=12 ffn_hidden_size=3072 seq_length=512 "
     "bert_type=megatron bert_binary_head=false add_lm_head=true"},
    {"MegatronBertConfig", "seq_length=512 bert_type=megatron bert_binary_head=false add_lm_head=true"},
    {"MegatronBertLargeConfig",
     "num_layers=24 hidden_size=1024 num_attention_heads=16 ffn_hidden_size=4096 seq_length=512 "
     "bert_type=megatron bert_binary_head=false add_lm_head=true"},
    {"MistralConfig7B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=14336 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu window_size=[4096,0] normalization=RMSNorm cp_comm_type=a2a "
     "share_embeddings_and_output_weights=false position_embedding_type=rope seq_length=32768"},
    {"MistralNeMoConfig123B",
     "num_layers=88 hidden_size=12288 num_attention_heads=96 num_query_groups=8 ffn_hidden_size=28672 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=4096"},
    {"MistralNeMoConfig12B",
     "num_layers=40 hidden_size=5120 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=14336 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=4096"},
    {"MixtralConfig",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=14336 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu num_moe_experts=8 normalization=RMSNorm moe_aux_loss_coeff=0.01 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 max_position_embeddings=4096"},
    {"MixtralConfig8x22B",
     "num_layers=56 hidden_size=6144 num_attention_heads=48 num_query_groups=8 ffn_hidden_size=16384 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu num_moe_experts=8 normalization=RMSNorm moe_aux_loss_coeff=0.01 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 max_position_embeddings=4096"},
    {"MixtralConfig8x3B",
     "num_layers=32 hidden_size=2560 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=8960 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu num_moe_experts=8 normalization=RMSNorm moe_aux_loss_coeff=0.01 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 max_position_embeddings=4096"},
    {"MixtralConfig8x7B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=14336 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu num_moe_experts=8 normalization=RMSNorm moe_aux_loss_coeff=0.01 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 max_position_embeddings=4096"},
    {"Nemotron3Config22B",
     "num_layers=40 hidden_size=6144 num_attention_heads=48 ffn_hidden_size=24576 hidden_dropout=0 "
     "attention_dropout=0 layernorm_zero_centered_gamma=true add_bias_linear=false "
     "activation_func=squared_relu init_method_std=0.008 share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_percent=0.5 seq_length=4096"},
    {"Nemotron3Config4B",
     "num_layers=32 hidden_size=3072 num_attention_heads=24 num_query_groups=8 ffn_hidden_size=9216 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false activation_func=squared_relu init_method_std=0.0134 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_percent=0.5 "
     "seq_length=4096"},
    {"Nemotron3Config8B",
     "num_layers=32 hidden_size=4096 num_attention_heads=32 ffn_hidden_size=16384 hidden_dropout=0 "
     "attention_dropout=0 layernorm_zero_centered_gamma=true add_bias_linear=false "
     "activation_func=squared_relu init_method_std=0.01 share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_percent=0.5 seq_length=4096"},
    {"Nemotron4Config15B",
     "num_layers=32 hidden_size=6144 num_attention_heads=48 num_query_groups=8 ffn_hidden_size=24576 "
     "hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true add_bias_linear=false "
     "activation_func=squared_relu init_method_std=0.0134 share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_percent=0.5 seq_length=4096"},
    {"Nemotron4Config340B",
     "num_layers=96 hidden_size=18432 num_attention_heads=96 num_query_groups=8 ffn_hidden_size=73728 "
     "hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true add_bias_linear=false "
     "activation_func=squared_relu init_method_std=0.0063 share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_percent=0.5 seq_length=4096"},
    {"NemotronConfig",
     "num_layers=32 hidden_size=3072 num_attention_heads=24 num_query_groups=8 ffn_hidden_size=9216 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_zero_centered_gamma=true "
     "add_bias_linear=false activation_func=squared_relu init_method_std=0.0134 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_percent=0.5 "
     "seq_length=4096"},
    {"Phi3Config",
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096"},
    {"Phi3ConfigMini",
     "num_layers=32 hidden_size=3072 num_attention_heads=32 num_query_groups=32 ffn_hidden_size=8192 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=4096 vocab_size=32064"},
    {"Qwen25Config14B",
     "num_layers=48 hidden_size=5120 num_attention_heads=40 num_query_groups=8 ffn_hidden_size=13824 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false add_qkv_bias=true gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=131072 vocab_size=152064"},
    {"Qwen25Config1P5B",
     "num_layers=28 hidden_size=1536 num_attention_heads=12 num_query_groups=2 ffn_hidden_size=8960 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=131072 vocab_size=151936"},
    {"Qwen25Config32B",
     "num_layers=64 hidden_size=5120 num_attention_heads=40 num_query_groups=8 ffn_hidden_size=27648 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false add_qkv_bias=true gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=131072 vocab_size=152064"},
    {"Qwen25Config3B",
     "num_layers=36 hidden_size=2048 num_attention_heads=16 num_query_groups=2 ffn_hidden_size=11008 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm position_embedding_type=rope "
     "rotary_base=1000000 seq_length=4096 vocab_size=151936"},
    {"Qwen25Config500M",
     "num_layers=24 hidden_size=896 num_attention_heads=14 num_query_groups=2 ffn_hidden_size=4864 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=32768 vocab_size=151936"},
    {"Qwen25Config72B",
     "num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=29568 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false add_qkv_bias=true gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=131072 vocab_size=152064"},
    {"Qwen25Config7B",
     "num_layers=28 hidden_size=3584 num_attention_heads=28 num_query_groups=4 ffn_hidden_size=18944 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=131072 vocab_size=152064"},
    {"Qwen2Config",
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936"},
    {"Qwen2Config1P5B",
     "num_layers=28 hidden_size=1536 num_attention_heads=12 num_query_groups=2 ffn_hidden_size=8960 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936"},
    {"Qwen2Config500M",
     "num_layers=24 hidden_size=896 num_attention_heads=14 num_query_groups=2 ffn_hidden_size=4864 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936"},
    {"Qwen2Config72B",
     "num_layers=80 hidden_size=8192 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=29568 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false add_qkv_bias=true gated_linear_unit=true "
     "activation_func=silu normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=rope rotary_base=1000000 seq_length=4096 vocab_size=152064"},
    {"Qwen2Config7B",
     "num_layers=28 hidden_size=3584 num_attention_heads=28 num_query_groups=4 ffn_hidden_size=18944 "
     "hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false add_qkv_bias=true "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=152064"},
    {"Qwen3Config",
     "num_query_groups=8 kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "add_bias_linear=false gated_linear_unit=true activation_func=silu normalization=RMSNorm "
     "qk_layernorm=true share_embeddings_and_output_weights=false position_embedding_type=rope "
     "rotary_base=1000000 seq_length=4096 vocab_size=151936 max_position_embeddings=40960"},
    {"Qwen3Config14B",
     "num_layers=40 hidden_size=5120 num_attention_heads=40 num_query_groups=8 ffn_hidden_size=17408 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm qk_layernorm=true "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936 max_position_embeddings=40960"},
    {"Qwen3Config1P7B",
     "num_layers=28 hidden_size=2048 num_attention_heads=16 num_query_groups=8 ffn_hidden_size=6144 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm qk_layernorm=true "
     "position_embedding_type=rope rotary_base=1000000 seq_length=4096 vocab_size=151936 "
     "max_position_embeddings=40960"},
    {"Qwen3Config235B_A22B",
     "num_layers=94 hidden_size=4096 num_attention_heads=64 num_query_groups=4 ffn_hidden_size=12288 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu num_moe_experts=128 normalization=RMSNorm "
     "qk_layernorm=true moe_ffn_hidden_size=1536 moe_router_topk=8 moe_aux_loss_coeff=0.001 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936 max_position_embeddings=40960"},
    {"Qwen3Config30B_A3B",
     "num_layers=48 hidden_size=2048 num_attention_heads=32 num_query_groups=4 ffn_hidden_size=6144 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu num_moe_experts=128 normalization=RMSNorm "
     "qk_layernorm=true moe_ffn_hidden_size=768 moe_router_topk=8 moe_aux_loss_coeff=0.001 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936 max_position_embeddings=40960"},
    {"Qwen3Config32B",
     "num_layers=64 hidden_size=5120 num_attention_heads=64 num_query_groups=8 ffn_hidden_size=25600 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm qk_layernorm=true "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936 max_position_embeddings=40960"},
    {"Qwen3Config4B",
     "num_layers=36 hidden_size=2560 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=9728 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm qk_layernorm=true "
     "position_embedding_type=rope rotary_base=1000000 seq_length=4096 vocab_size=151936 "
     "max_position_embeddings=40960"},
    {"Qwen3Config600M",
     "num_layers=28 hidden_size=1024 num_attention_heads=16 num_query_groups=8 ffn_hidden_size=3072 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm qk_layernorm=true "
     "position_embedding_type=rope rotary_base=1000000 seq_length=4096 vocab_size=151936 "
     "max_position_embeddings=40960"},
    {"Qwen3Config8B",
     "num_layers=36 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=12288 "
     "kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 add_bias_linear=false "
     "gated_linear_unit=true activation_func=silu normalization=RMSNorm qk_layernorm=true "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936 max_position_embeddings=40960"},
    {"Qwen3MoEConfig",
     "num_query_groups=8 kv_channels=128 hidden_dropout=0 attention_dropout=0 layernorm_epsilon=1e-06 "
     "add_bias_linear=false gated_linear_unit=true activation_func=silu num_moe_experts=128 "
     "normalization=RMSNorm qk_layernorm=true moe_router_topk=8 moe_aux_loss_coeff=0.001 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=4096 vocab_size=151936 max_position_embeddings=40960"},
    {"NVIDIAMambaConfig8B",
     "num_layers=56 hidden_size=4096 num_attention_heads=32 ffn_hidden_size=4096 hidden_dropout=0 "
     "attention_dropout=0 add_bias_linear=false normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=none seq_length=4096 "
     "hybrid_override_pattern=MMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMMM "
     "mamba_num_groups=8"},
    {"NVIDIAMambaHybridConfig8B",
     "num_layers=56 hidden_size=4096 num_attention_heads=32 num_query_groups=8 ffn_hidden_size=16384 "
     "hidden_dropout=0 attention_dropout=0 add_bias_linear=false normalization=RMSNorm "
     "share_embeddings_and_output_weights=false position_embedding_type=none seq_length=4096 "
     "hybrid_override_pattern=M-M-M--M-M*-M-M-M-M--M*-M-M-M-M-M*--M-M-M-M-M*-M--M-M-M- "
     "mamba_num_groups=8"},
    {"NemotronHConfig47B",
     "num_layers=98 hidden_size=8192 num_attention_heads=64 ffn_hidden_size=30720 mamba_head_dim=64 "
     "num_query_groups=8 hidden_dropout=0 attention_dropout=0 add_bias_linear=false "
     "normalization=RMSNorm share_embeddings_and_output_weights=false position_embedding_type=none "
     "activation_func=squared_relu seq_length=8192 vocab_size=131072 first_last_layers_bf16=true "
     "mamba_num_groups=8 "
     "hybrid_override_pattern=M-M-M-M-M-M-M-M-M*-M-M-M-M-M-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-M-M---"
     "MM---M-M*-M-M-M-M-M- "
     "mamba_state_dim=256"},
    {"NemotronHConfig4B",
     "num_layers=52 hidden_size=3072 num_attention_heads=32 ffn_hidden_size=12288 kv_channels=128 "
     "mamba_num_heads=112 mamba_head_dim=64 num_query_groups=8 hidden_dropout=0 attention_dropout=0 "
     "add_bias_linear=false normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=none activation_func=squared_relu seq_length=8192 vocab_size=131072 "
     "first_last_layers_bf16=true mamba_num_groups=8 "
     "hybrid_override_pattern=M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M- mamba_state_dim=128"},
    {"NemotronHConfig56B",
     "num_layers=118 hidden_size=8192 num_attention_heads=64 ffn_hidden_size=32768 mamba_head_dim=64 "
     "num_query_groups=8 hidden_dropout=0 attention_dropout=0 add_bias_linear=false "
     "normalization=RMSNorm share_embeddings_and_output_weights=false position_embedding_type=none "
     "activation_func=squared_relu seq_length=8192 vocab_size=131072 first_last_layers_bf16=true "
     "mamba_num_groups=8 "
     "hybrid_override_pattern=M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-"
     "M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M- "
     "mamba_state_dim=256"},
    {"NemotronHConfig8B",
     "num_layers=52 hidden_size=4096 num_attention_heads=32 ffn_hidden_size=21504 mamba_head_dim=64 "
     "num_query_groups=8 hidden_dropout=0 attention_dropout=0 add_bias_linear=false "
     "normalization=RMSNorm share_embeddings_and_output_weights=false position_embedding_type=none "
     "activation_func=squared_relu seq_length=8192 vocab_size=131072 first_last_layers_bf16=true "
     "mamba_num_groups=8 hybrid_override_pattern=M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M- "
     "mamba_state_dim=128"},
    {"NemotronNano12Bv2",
     "num_layers=62 hidden_size=5120 num_attention_heads=40 ffn_hidden_size=20480 kv_channels=128 "
     "mamba_num_heads=128 mamba_head_dim=80 num_query_groups=8 hidden_dropout=0 attention_dropout=0 "
     "add_bias_linear=false normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=none activation_func=squared_relu seq_length=8192 vocab_size=131072 "
     "first_last_layers_bf16=true mamba_num_groups=8 "
     "hybrid_override_pattern=M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M*-M-M-M-M- "
     "mamba_state_dim=128"},
    {"NemotronNano9Bv2",
     "num_layers=56 hidden_size=4480 num_attention_heads=40 ffn_hidden_size=15680 kv_channels=128 "
     "mamba_num_heads=128 mamba_head_dim=80 num_query_groups=8 hidden_dropout=0 attention_dropout=0 "
     "add_bias_linear=false normalization=RMSNorm share_embeddings_and_output_weights=false "
     "position_embedding_type=none activation_func=squared_relu seq_length=8192 vocab_size=131072 "
     "first_last_layers_bf16=true mamba_num_groups=8 "
     "hybrid_override_pattern=M-M-M-MM-M-M-M*-M-M-M*-M-M-M-M*-M-M-M-M*-M-MM-M-M-M-M-M- "
     "mamba_state_dim=128"},
    {"SSMConfig",
     "num_attention_heads=1 hidden_dropout=0 attention_dropout=0 add_bias_linear=false "
     "normalization=RMSNorm share_embeddings_and_output_weights=false position_embedding_type=none "
     "seq_length=8192 mamba_num_groups=8"},
    {"Starcoder2Config",
     "hidden_dropout=0 attention_dropout=0 init_method_std=0.01 share_embeddings_and_output_weights=false "
     "position_embedding_type=rope seq_length=16384"},
    {"Starcoder2Config15B",
     "num_layers=40 hidden_size=6144 num_attention_heads=48 num_query_groups=4 ffn_hidden_size=24576 "
     "hidden_dropout=0 attention_dropout=0 init_method_std=0.01275 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=100000 "
     "seq_length=16384"},
    {"Starcoder2Config3B",
     "num_layers=30 hidden_size=3072 num_attention_heads=24 num_query_groups=2 ffn_hidden_size=12288 "
     "hidden_dropout=0 attention_dropout=0 init_method_std=0.018042 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=999999.4420358813 "
     "seq_length=16384"},
    {"Starcoder2Config7B",
     "num_layers=32 hidden_size=4608 num_attention_heads=36 num_query_groups=4 ffn_hidden_size=18432 "
     "hidden_dropout=0 attention_dropout=0 init_method_std=0.018042 "
     "share_embeddings_and_output_weights=false position_embedding_type=rope rotary_base=1000000 "
     "seq_length=16384"},
    {"StarcoderConfig",
     "num_query_groups=1 hidden_dropout=0.2 attention_dropout=0.2 init_method_std=0.01 "
     "share_embeddings_and_output_weights=false seq_length=8192"},
    {"StarcoderConfig15B",
     "num_layers=40 hidden_size=6144 num_attention_heads=48 num_query_groups=1 ffn_hidden_size=24576 "
     "hidden_dropout=0.2 attention_dropout=0.2 share_embeddings_and_output_weights=false seq_length=8192"},
    {"T5Config",
     "max_position_embeddings=512 relative_attention_num_buckets=32 relative_attention_max_distance=128 "
     "seq_length=512 seq_length_dec=128"},
    {"T5Config11B",
     "num_layers=24 hidden_size=4096 num_attention_heads=64 ffn_hidden_size=10240 encoder_num_layers=24 "
     "max_position_embeddings=512 relative_attention_num_buckets=32 relative_attention_max_distance=128 "
     "seq_length=512 seq_length_dec=128"},
    {"T5Config220M",
     "num_layers=12 hidden_size=768 num_attention_heads=12 ffn_hidden_size=3072 encoder_num_layers=12 "
     "max_position_embeddings=512 relative_attention_num_buckets=32 relative_attention_max_distance=128 "
     "seq_length=512 seq_length_dec=128"},
    {"T5Config3B",
     "num_layers=24 hidden_size=2048 num_attention_heads=32 ffn_hidden_size=5120 encoder_num_layers=24 "
     "max_position_embeddings=512 relative_attention_num_buckets=32 relative_attention_max_distance=128 "
     "seq_length=512 seq_length_dec=128"},
};

}  // namespace

std::span<const Nemo2Class> nemo2_class_fields() { return kClasses; }

}  // namespace stoa::foreign
