import random_sizes as s


def options(r):
    o = s.sizes(r)
    experts, layers = r.randint(2, 9), o["num_hidden_layers"]
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), qkv_bias=s.maybe(r, True, False), num_experts=experts,
             num_experts_per_tok=r.randint(1, experts), moe_intermediate_size=r.randint(2, 30), norm_topk_prob=s.maybe(r, True, False),
             shared_expert_intermediate_size=r.randint(2, 30), decoder_sparse_step=r.choice([1, 1, 2, 3]),
             mlp_only_layers=[l for l in range(layers) if r.random() < 0.2])
    if r.random() < 0.5:
        o.update(use_sliding_window=True, sliding_window=r.randint(1, 30), max_window_layers=r.randint(0, layers + 1))
        if r.random() < 0.5: o["layer_types"] = s.layer_types(r, layers)
    return dict(o, rope_parameters=s.rope(r, o))
