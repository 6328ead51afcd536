"""Compares the adapters of Stoa with those of PEFT, for a model of each kind: adapters that PEFT made are used by
`stoa score`, adapters that `stoa train` made are loaded by PEFT, merged models by transformers. Log-probabilities in fp32.

    python tests/oracle/check_adapters.py build/release/src/stoa            # all families; needs torch, transformers and peft
    python tests/oracle/check_adapters.py build/release/src/stoa llama phi3
"""
import json

import peft
import torch
import transformers
from adapter_scores import GPT2, LAYOUT, LLAMA as BASE, VOCABULARY, check_all, compare, moved, torch_scores

NEOX = dict(vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
            max_position_embeddings=64, bos_token_id=1, eos_token_id=2)
EXPERTS = dict(target_parameters=["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])
DEEPSEEK = dict(BASE, num_key_value_heads=4, n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, moe_intermediate_size=16,
                first_k_dense_replace=1, kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8)
EXPERT_LAYERS = ["o_proj", "gate_proj", "up_proj", "down_proj"]
# model_type, configuration, keys of LoraConfig
CASES = {
    "llama": ("llama", BASE, dict(target_modules="all-linear")),
    "llama_rslora": ("llama", BASE, dict(target_modules=["q_proj", "v_proj"], use_rslora=True, rank_pattern={"v_proj": 5})),
    "llama_dora": ("llama", BASE, dict(target_modules="all-linear", use_dora=True)),
    "gpt2_dora": ("gpt2", GPT2, dict(target_modules=["c_attn", "c_fc"], use_dora=True)),
    "gpt_neox_dora": ("gpt_neox", NEOX, dict(target_modules=["query_key_value"], use_dora=True)),
    "phi3_dora": ("phi3", BASE, dict(target_modules=["qkv_proj", "down_proj"], use_dora=True)),
    "gpt2": ("gpt2", GPT2, dict(target_modules=["c_attn", "c_fc"], bias="all")),
    "gpt_neox": ("gpt_neox", NEOX, dict(target_modules=["query_key_value", "dense_h_to_4h"])),
    "bloom": ("bloom", dict(vocab_size=VOCABULARY, hidden_size=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=2),
              dict(target_modules=["query_key_value"], bias="lora_only")),
    "phi3": ("phi3", BASE, dict(target_modules=["qkv_proj", "gate_up_proj", "down_proj"])),
    "mixtral": ("mixtral", dict(BASE, num_local_experts=4, num_experts_per_tok=2), dict(target_modules=["q_proj", "v_proj"])),
    "qwen3_moe": ("qwen3_moe", dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, norm_topk_prob=True),
                  dict(target_modules=["q_proj"], **EXPERTS)),
    # Shared experts, dense layers beside sparse ones: PEFT takes names of experts' layers for their parameters.
    "deepseek_v2": ("deepseek_v2", dict(DEEPSEEK, q_lora_rank=None, topk_method="greedy"), dict(target_modules=EXPERT_LAYERS)),
    "deepseek_v3": ("deepseek_v3", dict(DEEPSEEK, q_lora_rank=16, n_group=1, topk_group=1), dict(target_modules=EXPERT_LAYERS)),
    "qwen2_moe": ("qwen2_moe", dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16,
                                    shared_expert_intermediate_size=24, decoder_sparse_step=1),
                  dict(target_modules=["q_proj", "gate_proj", "up_proj", "down_proj"], rank_pattern={r".*\.gate_up_proj": 6}, **EXPERTS)),
    "qwen3_moe_dense": ("qwen3_moe", dict(BASE, num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, mlp_only_layers=[0]),
                        dict(target_modules=["q_proj", "gate_proj", "up_proj", "down_proj"])),
    "gemma2": ("gemma2", dict(BASE, head_dim=8, sliding_window=8, query_pre_attn_scalar=9), dict(target_modules="all-linear")),
}
# Rows of tokens, in ranks' parts of the vocabulary that differ; the first has a head of its own.
ROWS = [3, 80, 319]
CASES["llama_rows"] = ("llama", BASE, dict(target_modules=["q_proj"], trainable_token_indices={"embed_tokens": ROWS, "lm_head": ROWS}))
CASES["gemma2_rows"] = ("gemma2", CASES["gemma2"][1], dict(target_modules=["q_proj"], trainable_token_indices=ROWS))
# Branches of the embedding and of the head. Where the two are tied, PEFT can adapt either of them alone.
CASES["llama_tokens"] = ("llama", BASE, dict(target_modules=["q_proj", "embed_tokens", "lm_head"], rank_pattern={"lm_head": 5}))
CASES["gpt2_tokens"] = ("gpt2", GPT2, dict(target_modules=["c_attn", "wte", "lm_head"]))
CASES["gemma2_embedding"] = ("gemma2", CASES["gemma2"][1], dict(target_modules=["q_proj", "embed_tokens"]))
CASES["gemma2_head"] = ("gemma2", CASES["gemma2"][1], dict(target_modules=["q_proj", "lm_head"]))
TOKEN_NAMES = ["embed_tokens", "wte", "lm_head"]
# IA3: name of the case, its model in CASES, keys of IA3Config (none: PEFT's defaults)
FACTORS = {
    "ia3_llama": ("llama", {}), "ia3_gpt2": ("gpt2", {}), "ia3_bloom": ("bloom", {}), "ia3_gpt_neox": ("gpt_neox", {}),
    "ia3_gemma2": ("gemma2", dict(target_modules=["q_proj", "o_proj", "gate_proj"], feedforward_modules=["o_proj"])),
    "ia3_phi3": ("phi3", dict(target_modules=["qkv_proj", "down_proj"], feedforward_modules=["down_proj"])),
}

# Virtual tokens: name of the case, its model in CASES, Stoa's method.
VIRTUAL = {f"{method}_{model}": (model, method) for method in ("prompt", "p-tuning", "prefix")
           for model in ("llama", "gpt2", "bloom", "gemma2", "phi3", "mixtral")}
TOKENS = 4


def peft_config(method):
    common = dict(task_type="CAUSAL_LM", num_virtual_tokens=TOKENS)
    if method == "prompt":
        return peft.PromptTuningConfig(**common)
    if method == "prefix":
        return peft.PrefixTuningConfig(**common)
    return peft.PromptEncoderConfig(encoder_reparameterization_type="LSTM", encoder_hidden_size=12, **common)


def load(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, torch_dtype=torch.float32)


def check_virtual(place, name):
    model, method = VIRTUAL[name]
    model_type, configuration, _ = CASES[model]
    print(name)
    base, here = place.make_base(name, model_type, configuration), place.folder / name
    adapted = peft.get_peft_model(load(base), peft_config(method))
    for parameter in adapted.parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, std=0.4)
    adapted.save_pretrained(here / "peft")
    good = compare("PEFT's adapter, used by Stoa", place.scores(base, "--adapter", here / "peft"), torch_scores(adapted))
    run = here / "run"
    chats = place.folder / "chats.jsonl"
    chats.write_text("".join(
        json.dumps({"prompt": "The fox", "completion": f" runs in the {word}."}) + "\n" for word in ("wood", "oak", "sea") * 10))
    encoder = ["model.peft.p_tuning.encoder_type=lstm", "model.peft.p_tuning.bottleneck_dim=12"] if method == "p-tuning" else []
    place.stoa("finetune", base, "--data", chats, "--template", "none", "--method", method, "--epochs", 2,
               f"model.peft.p_tuning.virtual_tokens={TOKENS}", *encoder, "trainer.precision=fp32", "trainer.val_check_interval=0",
               "model.optim.lr=0.02", "model.optim.sched.warmup_ratio=0", "--output", run, *LAYOUT)
    ours = place.scores(run)
    trained = peft.PeftModel.from_pretrained(load(base), run / "checkpoints" / "latest" / "adapter")
    good &= compare("Stoa's adapter, loaded by PEFT", ours, torch_scores(trained))
    moved("trained: it moved", ours, place.scores(base))
    return good


def check(place, name):
    if name in VIRTUAL:
        return check_virtual(place, name)
    model_type, configuration, lora = CASES[FACTORS[name][0] if name in FACTORS else name]
    print(name)
    base, here = place.make_base(name, model_type, configuration), place.folder / name
    if name in FACTORS:
        config = peft.IA3Config(task_type="CAUSAL_LM", **FACTORS[name][1])
        ours = ["model.peft.peft_scheme=ia3"]
    else:
        config = peft.LoraConfig(r=4, lora_alpha=6, task_type="CAUSAL_LM", **lora)
        ours = ["model.peft.peft_scheme=lora", "model.peft.lora_tuning.adapter_dim=3", "model.peft.lora_tuning.alpha=12",
                f"model.peft.lora_tuning.use_dora={str(lora.get('use_dora', False)).lower()}",
                f"model.peft.trainable_token_indices={ROWS if 'trainable_token_indices' in lora else []}"]
        if set(lora["target_modules"]) & set(TOKEN_NAMES):
            ours.append(f"model.peft.lora_tuning.target_modules={json.dumps(lora['target_modules'])}")
    adapted = peft.get_peft_model(load(base), config)
    for key, parameter in adapted.named_parameters():
        if parameter.requires_grad:
            torch.nn.init.normal_(parameter, mean=1.0 if name in FACTORS else 0.0, std=0.2)
    adapted.save_pretrained(here / "peft")
    theirs = torch_scores(adapted)
    good = compare("PEFT's adapter, used by Stoa", place.scores(base, "--adapter", here / "peft"), theirs)
    place.stoa("checkpoint", "merge", base, "--adapter", here / "peft", "--dtype", "fp32", "--output", here / "merged")
    good &= compare("merged by Stoa, loaded by transformers", torch_scores(load(here / "merged")), theirs)
    adapter = place.train(base, here / "run", *ours, "model.optim.lr=0.02")
    ours = place.scores(here / "run")
    trained = peft.PeftModel.from_pretrained(load(base), adapter)
    good &= compare("Stoa's adapter, loaded by PEFT", ours, torch_scores(trained))
    moved("trained: it moved", ours, place.scores(base))
    return good


check_all([*CASES, *FACTORS, *VIRTUAL], check)
