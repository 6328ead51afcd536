import json

import random_sizes as s

AS = "granite"
OWN = {}  # keys of the model drawn last


def options(r):
    o = s.sizes(r, own_head=False)
    scale, depth, base = r.choice([12, 1.0, 3.5]), r.choice([1.4, 1.0, 0.7]), r.choice([8, 16, 5])
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False), embedding_multiplier=scale,
             residual_multiplier=depth / o["num_hidden_layers"] ** 0.5, attention_multiplier=s.head_size(o) ** -0.5,
             logits_scaling=o["hidden_size"] / base)
    OWN.update(scale_emb=scale, scale_depth=depth, dim_model_base=base, tie_word_embeddings=o["tie_word_embeddings"])
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "linear", "dynamic", "longrope")))


def disguise(directory, r):
    path = directory / "config.json"
    config = {k: v for k, v in json.loads(path.read_text()).items() if k not in (
        "embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")}
    path.write_text(json.dumps(dict(config, model_type="minicpm", architectures=["MiniCPMForCausalLM"], **OWN), indent=1))
