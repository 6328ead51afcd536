"""Makes tests/fixtures/model/families/*.json: what transformers computes for tiny models of every family that Stoa reads.

Weights follow an integer formula (see `weight`), so no weight files are needed. Each case holds config.json as transformers
writes it, the inputs, logits of some tokens, the loss and, for every tensor of the file, the norm of its gradient, the gradient's
projection on the weight formula, and its first elements.

    python tests/oracle/make_model_fixtures.py                # every case; needs torch and transformers
    python tests/oracle/make_model_fixtures.py llama qwen3    # only these cases
"""
import contextlib
import json
import pathlib
import sys

import numpy as np
import torch
import transformers

BASE = dict(vocab_size=41, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=None)
GPT2 = dict(vocab_size=41, n_embd=24, n_layer=3, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=2,
            resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
NEOX = dict(vocab_size=41, hidden_size=24, intermediate_size=40, num_hidden_layers=3, num_attention_heads=4,
            max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
GEMMA = dict(BASE, head_dim=8, sliding_window=5, query_pre_attn_scalar=9)
DEEPSEEK = dict(BASE, num_key_value_heads=4, q_lora_rank=14, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4,
                v_head_dim=5, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=12, n_shared_experts=2,
                n_group=4, topk_group=2, routed_scaling_factor=2.5, first_k_dense_replace=1)
GPT_OSS = dict(BASE, head_dim=8, num_local_experts=4, num_experts_per_tok=2, sliding_window=5, rope_parameters=dict(
    rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=16, beta_fast=32.0, beta_slow=1.0,
    truncate=False))
FALCON = dict(vocab_size=41, hidden_size=24, num_hidden_layers=3, num_attention_heads=4, max_position_embeddings=64, bos_token_id=1,
              eos_token_id=2)
SLIDING_1_3_4 = ["full_attention", "sliding_attention", "full_attention", "sliding_attention", "sliding_attention"]
NEO = dict(vocab_size=41, hidden_size=24, num_heads=4, max_position_embeddings=64, window_size=5, bos_token_id=1, eos_token_id=2)
GRANITE = dict(BASE, embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.3, logits_scaling=2.5)
HYBRID = dict(BASE, num_hidden_layers=4, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=6,
              linear_value_head_dim=7)
QWEN3_NEXT = dict(HYBRID, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, shared_expert_intermediate_size=12)
THETA = dict(rope_type="default", rope_theta=1e6)
CASES = {
    "gpt2": ("gpt2", GPT2),
    "gpt2_unscaled": ("gpt2", dict(GPT2, scale_attn_weights=False)),
    "gpt2_untied_relu": ("gpt2", dict(GPT2, tie_word_embeddings=False, n_inner=30, activation_function="relu")),
    "llama": ("llama", BASE),
    "llama_bias_tied": ("llama", dict(BASE, attention_bias=True, mlp_bias=True, tie_word_embeddings=True, head_dim=10,
                                      hidden_act="gelu")),
    "llama_longrope_short": ("llama", dict(BASE, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, factor=4.0, original_max_position_embeddings=32,
        short_factor=[1.0, 1.5, 2.0], long_factor=[2.0, 3.0, 5.0]))),
    "llama_longrope_long": ("llama", dict(BASE, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, factor=4.0, original_max_position_embeddings=8,
        short_factor=[1.0, 1.5, 2.0], long_factor=[2.0, 3.0, 5.0]))),
    "mistral_window": ("mistral", dict(BASE, sliding_window=5, head_dim=8)),
    "mistral_full": ("mistral", dict(BASE, sliding_window=None)),
    "qwen2": ("qwen2", dict(BASE, rope_parameters=THETA)),
    "qwen2_window": ("qwen2", dict(BASE, use_sliding_window=True, sliding_window=5, max_window_layers=2)),
    "qwen3": ("qwen3", dict(BASE, head_dim=10, rope_parameters=THETA, tie_word_embeddings=True)),
    "qwen3_window": ("qwen3", dict(BASE, head_dim=8, use_sliding_window=True, sliding_window=3, max_window_layers=1)),
    "mixtral": ("mixtral", dict(BASE, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    "mixtral_window": ("mixtral", dict(BASE, num_local_experts=6, num_experts_per_tok=3, sliding_window=5)),
    "qwen3_moe": ("qwen3_moe", dict(BASE, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                    norm_topk_prob=True, mlp_only_layers=[1])),
    "qwen3_moe_raw": ("qwen3_moe", dict(BASE, head_dim=8, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=12,
                                        norm_topk_prob=False, decoder_sparse_step=2)),
    "qwen3_next": ("qwen3_next", QWEN3_NEXT),
    "qwen3_next_dense": ("qwen3_next", dict(QWEN3_NEXT, layer_types=["linear_attention", "full_attention", "linear_attention", "linear_attention"],
                                            mlp_only_layers=[0, 2], linear_num_key_heads=3, linear_num_value_heads=3,
                                            linear_conv_kernel_dim=3, head_dim=16, norm_topk_prob=False,
                                            tie_word_embeddings=True)),
    "qwen3_5": ("qwen3_5_text", dict(HYBRID, linear_num_key_heads=3, linear_num_value_heads=3, tie_word_embeddings=True)),
    "qwen3_5_moe": ("qwen3_5_moe_text", {k: v for k, v in QWEN3_NEXT.items() if k != "intermediate_size"}),
    "deepseek_v3": ("deepseek_v3", DEEPSEEK),
    "deepseek_v3_yarn": ("deepseek_v3", dict(
        DEEPSEEK, q_lora_rank=None, n_group=1, topk_group=1, norm_topk_prob=False, n_shared_experts=1,
        routed_scaling_factor=1.0, first_k_dense_replace=2, v_head_dim=10, rope_parameters=dict(
            rope_type="yarn", rope_theta=1e4, factor=4.0, original_max_position_embeddings=16, mscale=1.0,
            mscale_all_dim=1.0))),
    "gpt_oss": ("gpt_oss", dict(GPT_OSS)),
    "gpt_oss_clamped": ("gpt_oss", dict(GPT_OSS, swiglu_limit=0.25, swiglu_alpha=1.3, layer_types=["full_attention"] * 3,
                                        num_local_experts=6, num_experts_per_tok=3, tie_word_embeddings=True,
                                        rope_parameters=dict(rope_type="default", rope_theta=1e4))),
    "gpt_oss_plain_attention": ("gpt_oss", dict(GPT_OSS, attention_bias=False)),
    "gpt_neox": ("gpt_neox", dict(NEOX, rotary_pct=0.67)),
    "gpt_neox_serial": ("gpt_neox", dict(NEOX, num_attention_heads=3, use_parallel_residual=False, hidden_act="relu",
                                         tie_word_embeddings=True)),
    "phi3": ("phi3", dict(BASE, sliding_window=6, rope_parameters=dict(
        rope_type="default", rope_theta=1e4, partial_rotary_factor=0.7))),
    "phi3_longrope_short": ("phi3", dict(BASE, original_max_position_embeddings=32, rope_parameters=dict(
        rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.5, 2.0], long_factor=[2.0, 3.0, 5.0]))),
    "phi3_longrope_long": ("phi3", dict(BASE, original_max_position_embeddings=8, tie_word_embeddings=True,
                                        rope_parameters=dict(rope_type="longrope", rope_theta=1e4, short_factor=[1.0, 1.5, 2.0],
                                                             long_factor=[2.0, 3.0, 5.0]))),
    "olmo2": ("olmo2", dict(BASE, rope_parameters=dict(rope_type="default", rope_theta=5e5))),
    "gemma2": ("gemma2", dict(GEMMA, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)),
    "gemma2_uncapped": ("gemma2", dict(GEMMA, attn_logit_softcapping=None, final_logit_softcapping=None, num_hidden_layers=2)),
    "gemma3": ("gemma3_text", dict(GEMMA, num_hidden_layers=4, sliding_window_pattern=2, rope_parameters=dict(
        full_attention=dict(rope_type="linear", factor=8.0, rope_theta=1e6),
        sliding_attention=dict(rope_type="default", rope_theta=100.0)))),
    "llama_attention_bias": ("llama", dict(BASE, attention_bias=True)),
    "qwen3_layers_bias": ("qwen3", dict(BASE, head_dim=8, attention_bias=True, use_sliding_window=True, sliding_window=3,
                                        num_hidden_layers=5, layer_types=SLIDING_1_3_4)),
    "qwen3_moe_window": ("qwen3_moe", dict(BASE, head_dim=8, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                           attention_bias=True, use_sliding_window=True, sliding_window=4)),
    "gemma2_full_bias": ("gemma2", dict(GEMMA, attention_bias=True, layer_types=["full_attention"] * 3)),
    "gemma3_full": ("gemma3_text", dict(GEMMA, layer_types=["full_attention"] * 3)),
    "gemma3_layers": ("gemma3_text", dict(GEMMA, num_hidden_layers=5, layer_types=SLIDING_1_3_4)),
    "deepseek_v3_halves_bias": ("deepseek_v3", dict(DEEPSEEK, rope_interleave=False, attention_bias=True)),
    "gpt_neox_odd_rotary": ("gpt_neox", dict(NEOX, attention_bias=False, rotary_pct=0.6)),  # 3 channels of 6
    "olmo2_bias": ("olmo2", dict(BASE, attention_bias=True)),
    "arcee": ("arcee", dict(BASE, mlp_bias=True)),
    "deepseek_v2": ("deepseek_v2", dict(
        BASE, num_key_value_heads=4, q_lora_rank=14, kv_lora_rank=10, qk_nope_head_dim=6, qk_rope_head_dim=4, v_head_dim=5,
        n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=12, n_shared_experts=2, routed_scaling_factor=1.5,
        first_k_dense_replace=1)),
    "dots1": ("dots1", dict(BASE, n_routed_experts=6, num_experts_per_tok=3, moe_intermediate_size=12, n_shared_experts=2,
                            first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=2.5, sliding_window=5,
                            max_window_layers=1)),
    "ernie4_5": ("ernie4_5", dict(BASE, head_dim=10, use_bias=True)),
    "falcon_grouped": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, bias=True)),
    "falcon_one_norm": ("falcon", dict(FALCON, bias=True)),
    "falcon_serial": ("falcon", dict(FALCON, multi_query=False, parallel_attn=False, ffn_hidden_size=40, activation="relu")),
    "falcon_grouped_one_norm": ("falcon", dict(FALCON, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1,
                                               tie_word_embeddings=False)),
    "exaone4": ("exaone4", dict(BASE, num_hidden_layers=4, sliding_window=5, head_dim=8)),
    "exaone4_full": ("exaone4", dict(BASE, sliding_window=None, layer_types=["full_attention"] * 3, tie_word_embeddings=True)),
    "exaone4_no_rope": ("exaone4", dict(BASE, sliding_window=5, layer_types=["full_attention"] * 3)),
    "gemma": ("gemma", dict(BASE, head_dim=8)),
    "gemma3_images": ("gemma3", dict(
        text_config=dict(GEMMA, num_hidden_layers=2, sliding_window_pattern=2), tie_word_embeddings=True, image_token_id=40, boi_token_id=39,
        eoi_token_id=38, mm_tokens_per_image=4,
        vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, image_size=8, patch_size=4))),
    "glm": ("glm", dict(BASE, head_dim=12)),
    "glm4": ("glm4", dict(BASE, head_dim=12, attention_bias=False)),
    "glm4_moe": ("glm4_moe", dict(BASE, head_dim=12, n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=12,
                                  n_shared_experts=1, n_group=4, topk_group=2, routed_scaling_factor=2.5, use_qk_norm=True,
                                  attention_bias=True)),
    "gpt_bigcode": ("gpt_bigcode", GPT2),
    "gpt_bigcode_heads": ("gpt_bigcode", dict(GPT2, multi_query=False)),
    "gpt_bigcode_unscaled": ("gpt_bigcode", dict(GPT2, scale_attn_weights=False)),
    "helium": ("helium", dict(BASE, head_dim=6, mlp_bias=True)),
    "minimax_m2": ("minimax_m2", dict(BASE, head_dim=12, num_local_experts=6, num_experts_per_tok=3, rope_parameters=dict(
        rope_type="default", rope_theta=1e4, partial_rotary_factor=0.5))),
    "ministral": ("ministral", dict(BASE, head_dim=8, sliding_window=3, num_hidden_layers=5, layer_types=SLIDING_1_3_4)),
    "nemotron": ("nemotron", dict(BASE, attention_bias=True)),
    "olmo3": ("olmo3", dict(BASE, num_hidden_layers=4, sliding_window=3, rope_parameters=dict(
        full_attention=dict(rope_type="yarn", rope_theta=5e5, factor=4.0, original_max_position_embeddings=16),
        sliding_attention=dict(rope_type="default", rope_theta=5e5)))),
    "olmoe": ("olmoe", dict(BASE, num_experts=6, num_experts_per_tok=3)),
    "seed_oss": ("seed_oss", dict(BASE, head_dim=8, attention_out_bias=True, mlp_bias=False, attention_dropout=0.0,
                                  residual_dropout=0.0)),
    "stablelm": ("stablelm", dict(BASE, use_qkv_bias=True, partial_rotary_factor=0.67)),
    "stablelm_parallel": ("stablelm", dict(BASE, use_parallel_residual=True, num_key_value_heads=4, tie_word_embeddings=True,
                                            partial_rotary_factor=0.67)),
    "starcoder2": ("starcoder2", dict(BASE, sliding_window=5)),
    "granite": ("granite", GRANITE),
    "granite_tied": ("granite", dict(GRANITE, tie_word_embeddings=True, logits_scaling=3.0, residual_multiplier=1.3)),
    "granitemoe": ("granitemoe", dict(GRANITE, num_local_experts=4, num_experts_per_tok=2)),
    "minicpm": ("granite", dict(BASE, tie_word_embeddings=True)),
    "smollm3": ("smollm3", dict(BASE, no_rope_layer_interval=2, tie_word_embeddings=True)),
    "smollm3_window": ("smollm3", dict(BASE, num_hidden_layers=4, no_rope_layers=[1, 0, 0, 1], use_sliding_window=True,
                                       sliding_window=5, layer_types=["sliding_attention", "full_attention"] * 2,
                                       tie_word_embeddings=False)),
    "cohere": ("cohere", dict(BASE, logit_scale=0.3)),
    "cohere2": ("cohere2", dict(BASE, num_hidden_layers=4, sliding_window=5, logit_scale=0.25)),
    "phi": ("phi", dict(BASE, rope_parameters=dict(rope_type="default", rope_theta=1e4, partial_rotary_factor=0.67))),
    "phi_qk_norm": ("phi", dict(BASE, qk_layernorm=True, num_attention_heads=3, num_key_value_heads=3)),
    "opt": ("opt", dict(vocab_size=41, hidden_size=24, ffn_dim=40, num_hidden_layers=3, num_attention_heads=4,
                        max_position_embeddings=30, pad_token_id=None, bos_token_id=1, eos_token_id=2, dropout=0.0)),
    "opt_no_bias": ("opt", dict(vocab_size=41, hidden_size=24, ffn_dim=40, num_hidden_layers=2, num_attention_heads=3,
                                max_position_embeddings=64, pad_token_id=None, bos_token_id=1, eos_token_id=2,
                                enable_bias=False, activation_function="gelu", tie_word_embeddings=False, dropout=0.0)),
    "opt_plain_norms": ("opt", dict(vocab_size=41, hidden_size=24, ffn_dim=40, num_hidden_layers=2, num_attention_heads=4,
                                    max_position_embeddings=64, pad_token_id=None, bos_token_id=1, eos_token_id=2,
                                    layer_norm_elementwise_affine=False, dropout=0.0)),
    "olmo": ("olmo", dict(BASE, rope_parameters=THETA)),
    "gptj": ("gptj", dict(GPT2, rotary_dim=4)),
    "gptj_whole": ("gptj", dict(GPT2, rotary_dim=6, n_inner=30, activation_function="relu")),
    "gpt_neo": ("gpt_neo", dict(NEO, num_layers=4, attention_types=[[["global", "local"], 2]])),
    "gpt_neo_layers": ("gpt_neo", dict(NEO, num_layers=3, attention_types=[[["local", "global", "local"], 1]],
                                       intermediate_size=30, tie_word_embeddings=False)),
    "mpt": ("mpt", dict(vocab_size=41, d_model=24, n_heads=4, n_layers=3, max_seq_len=64, bos_token_id=1, eos_token_id=2)),
    "mpt_6_heads": ("mpt", dict(vocab_size=41, d_model=24, n_heads=6, n_layers=2, max_seq_len=64, bos_token_id=1,
                                eos_token_id=2, attn_config=dict(softmax_scale=0.7))),
    "hunyuan_dense": ("hunyuan_v1_dense", dict(BASE, head_dim=8, rope_parameters=dict(
        rope_type="dynamic", rope_theta=1e4, alpha=50.0, factor=1.0))),
    "hunyuan_dense_default": ("hunyuan_v1_dense", dict(BASE, head_dim=6, tie_word_embeddings=True)),
    "qwen2_moe": ("qwen2_moe", dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                    shared_expert_intermediate_size=20, norm_topk_prob=True, mlp_only_layers=[1])),
    "qwen2_moe_raw": ("qwen2_moe", dict(BASE, num_experts=6, num_experts_per_tok=3, moe_intermediate_size=12,
                                        shared_expert_intermediate_size=8, qkv_bias=False, tie_word_embeddings=True)),
    "bloom": ("bloom", dict(vocab_size=41, hidden_size=24, n_layer=3, n_head=4, bos_token_id=1, eos_token_id=2)),
    "bloom_6_heads": ("bloom", dict(vocab_size=41, hidden_size=24, n_layer=2, n_head=6, bos_token_id=1, eos_token_id=2)),
}
# No file of transformers has these: a family whose code it has computes the same, and the keys say so in the family's own
# way (MiniCPM: modeling_minicpm.py beside the published weights; 2404.06395, table 1).
SPELLED = {
    "minicpm": (dict(embedding_multiplier=12, residual_multiplier=1.4 / 3**0.5, attention_multiplier=6**-0.5,
                     logits_scaling=24 / 16),
                dict(model_type="minicpm", scale_emb=12, scale_depth=1.4, dim_model_base=16)),
}
HYBRIDS = ("qwen3_next", "qwen3_5")
ROWS, LENGTH = 2, 20
SHOWN = [4, 19, 26, 39]  # tokens whose logits are kept


def weight(ordinal, count):
    """v in [-.5, .5): tensor number `ordinal` in bytewise order of names, flat index 0 .. count."""
    with np.errstate(over="ignore"):
        h = np.arange(count, dtype=np.uint32) * np.uint32(0x9E3779B1) + np.uint32((ordinal + 1) * 0x85EBCA77 & 0xFFFFFFFF)
        h ^= h >> np.uint32(15)
        h *= np.uint32(0x2C1B3C6D)
        h ^= h >> np.uint32(12)
        h *= np.uint32(0x297A2D39)
        h ^= h >> np.uint32(15)
    return ((h >> np.uint32(8)).astype(np.float64) - 2**23) / 2**24


def numbers(values):
    return [float(f"{v:.8g}") for v in np.asarray(values, dtype=np.float64).ravel()]


def file_tensors(model, model_type):
    """Name in files -> function from a parameter-like tensor to its part. transformers 5
    packs experts in memory, not in files, and has names of its own for some others."""
    tensors = {name: (b, lambda x: x) for name, b in model.named_buffers() if name.endswith("e_score_correction_bias")}
    sparse = model_type in ("mixtral", "minimax_m2")  # mixtral's names in files
    if sparse: tensors = {name.replace(".mlp.", ".block_sparse_moe."): b for name, b in tensors.items()}
    for name, p in model.named_parameters():  # tied ones once, under the embedding's name
        if model_type == "gemma3":  # of the model that sees images, its text
            if "language_model" not in name and "lm_head" not in name: continue
            name = name.replace("model.language_model.", "model.")
        name = name.replace(".mlp.gate.", ".block_sparse_moe.gate.") if sparse else name
        name = name.replace("lm_head", "embed_out") if model_type == "gpt_neox" else name
        if model_type == "granitemoe":  # all experts in one tensor, under names of its own
            for own, other in ((".router", ".router.layer"), (".experts.gate_up_proj", ".input_linear.weight"),
                               (".experts.down_proj", ".output_linear.weight")):
                name = name.replace(own, other)
        if ".mlp.experts." not in name or model_type == "gpt_oss":  # whose files are packed, too
            tensors[name] = (p, lambda x: x)
            continue
        up = name.endswith("gate_up_proj")
        stem = name.rsplit(".", 1)[0]
        stem = stem.replace(".mlp.", ".block_sparse_moe.") if sparse else stem
        gate, rise, down = ("w1", "w3", "w2") if sparse else ("gate_proj", "up_proj", "down_proj")
        for e in range(p.shape[0]):
            if up:
                half = p.shape[1] // 2
                tensors[f"{stem}.{e}.{gate}.weight"] = (p, lambda x, e=e, half=half: x[e, :half])
                tensors[f"{stem}.{e}.{rise}.weight"] = (p, lambda x, e=e, half=half: x[e, half:])
            else:
                tensors[f"{stem}.{e}.{down}.weight"] = (p, lambda x, e=e: x[e])
    return tensors


@contextlib.contextmanager
def no_single_precision(model_type):
    """Linear attention of transformers computes in fp32, whatever the model's type: here in fp64 as all else."""
    single, cast = torch.float32, torch.Tensor.float
    if model_type.startswith(HYBRIDS):
        torch.float32, torch.Tensor.float = torch.float64, torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.Tensor.float = single, cast


def make_case(name, model_type, options):
    computed, spelled = SPELLED.get(name, ({}, {}))
    options = dict(options, **computed)
    config = transformers.AutoConfig.for_model(model_type, **options)
    config._experts_implementation = "eager"  # the grouped one knows no doubles
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").double().eval()
    named = file_tensors(model, model_type)
    names = sorted(named)
    for t, name in enumerate(names):
        with torch.no_grad():
            part = named[name][1](named[name][0])
            v = weight(t, part.numel())
            if part.dim() == 1 and name.endswith("weight"):
                centred = model_type.startswith(("gemma", "nemotron")) or (model_type.startswith(HYBRIDS) and "linear_attn" not in name)
                v = v / 2 if centred else 1 + v / 2  # these files hold norms minus 1
            part.copy_(torch.from_numpy(v).reshape(part.shape))
    ids = ((weight(1000, ROWS * LENGTH) + 0.5) * 41).astype(np.int64).reshape(ROWS, LENGTH)
    tokens = torch.from_numpy(ids)
    with no_single_precision(model_type):
        logits = model(tokens).logits
    loss = torch.nn.functional.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))
    loss.backward()
    gradients = {}
    for t, name in enumerate(names):
        p, part = named[name]
        if p.grad is None:  # a buffer
            gradients[name] = None
            continue
        g = part(p.grad).numpy().ravel()
        gradients[name] = dict(norm=numbers([np.linalg.norm(g)])[0], projection=numbers([g @ weight(t + 500, g.size)])[0],
                               first=numbers(g[:4]))
    written = json.loads(config.to_json_string(use_diff=False))
    written = {k: v for k, v in written.items() if k != "_name_or_path"}
    written["architectures"] = [type(model).__name__]
    written = {k: v for k, v in written.items() if k not in computed} | spelled
    return dict(config=written, tokens=ids.ravel().tolist(), loss=numbers([loss.item()])[0],
                logits=numbers(logits.detach().numpy().reshape(ROWS * LENGTH, -1)[SHOWN]),
                logits_norm=numbers([logits.norm().item()])[0], gradients=gradients)


def main():
    torch.set_num_threads(1)
    target = pathlib.Path(__file__).parent.parent / "fixtures" / "model" / "families"
    target.mkdir(parents=True, exist_ok=True)
    shared = dict(made_with=dict(transformers=transformers.__version__, torch=torch.__version__), rows=ROWS, shown=SHOWN)
    for name in sys.argv[1:] or CASES:
        case = make_case(name, *CASES[name])
        head, body = (json.dumps(part, separators=(",", ":")) for part in (shared, case))
        (target / f"{name}.json").write_text(f"{head[:-1]},\n{body[1:]}\n")
        print(name)


if __name__ == "__main__":
    main()
