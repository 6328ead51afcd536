import json

import safetensors.torch
import torch

import random_sizes as s

AS = "llama"
NAMES = (("model.embed_tokens", "model.tok_embeddings"), ("lm_head", "output"), ("input_layernorm", "attention_norm"),
         ("post_attention_layernorm", "ffn_norm"), ("self_attn.o_proj", "attention.wo"), ("mlp.gate_proj", "feed_forward.w1"),
         ("mlp.up_proj", "feed_forward.w3"), ("mlp.down_proj", "feed_forward.w2"))


def options(r):
    o = s.sizes(r, own_head=False)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "linear", "dynamic")))


def grouped(tensors, groups, stem, kind):
    """For each head of keys: its queries, the key, the value."""
    parts = [tensors.pop(f"{stem}.self_attn.{x}_proj.{kind}") for x in "qkv"]
    rows = [part.reshape(groups, -1, *part.shape[1:]) for part in parts]
    return torch.cat(rows, 1).reshape(-1, *parts[0].shape[1:]).contiguous()


def disguise(directory, r):
    path = directory / "config.json"
    config = json.loads(path.read_text())
    file = directory / "model.safetensors"
    tensors = safetensors.torch.load_file(file)
    groups, bias = config.get("num_key_value_heads") or config["num_attention_heads"], "model.layers.0.self_attn.o_proj.bias" in tensors
    for l in range(config["num_hidden_layers"]):
        for kind in ("weight", "bias") if bias else ("weight",):
            tensors[f"model.layers.{l}.attention.wqkv.{kind}"] = grouped(tensors, groups, f"model.layers.{l}", kind)
    renamed = {}
    for name, tensor in tensors.items():
        for theirs, own in NAMES: name = name.replace(theirs, own)
        renamed[name] = tensor
    safetensors.torch.save_file(renamed, file, {"format": "pt"})
    for key in ("attention_bias", "mlp_bias"): config.pop(key, None)
    path.write_text(json.dumps(dict(config, model_type="internlm2", architectures=["InternLM2ForCausalLM"], bias=bias), indent=1))
