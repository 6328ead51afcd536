import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    experts = r.randint(2, 9)
    o.update(rms_norm_eps=s.epsilon(r), sliding_window=r.randint(1, 30), num_local_experts=experts,
             num_experts_per_tok=r.randint(1, experts), swiglu_limit=r.choice([7.0, 0.5, 1.5]), swiglu_alpha=r.choice([1.702, 1.0]), attention_bias=s.maybe(r, True, False, 0.8))
    if r.random() < 0.5: o["layer_types"] = s.layer_types(r, o["num_hidden_layers"])
    return dict(o, rope_parameters=s.rope(r, o))
