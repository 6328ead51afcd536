import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    experts = r.randint(2, 9)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False), num_experts=experts,
             num_experts_per_tok=r.randint(1, experts), moe_intermediate_size=r.randint(2, 30), norm_topk_prob=s.maybe(r, True, False),
             decoder_sparse_step=r.choice([1, 1, 2, 3]), mlp_only_layers=[l for l in range(o["num_hidden_layers"]) if r.random() < 0.2])
    if r.random() < 0.5: o.update(use_sliding_window=True, sliding_window=r.randint(1, 30))
    return dict(o, rope_parameters=s.rope(r, o))


def respell(config, r):
    # What version 4 wrote beside it, and what transformers passes over.
    if r.random() < 0.5 and config.get("use_sliding_window"): config["max_window_layers"] = r.randint(0, 5)
    if "num_local_experts" in config and r.random() < 0.3: config["num_experts"] = config["num_local_experts"]
    return config
