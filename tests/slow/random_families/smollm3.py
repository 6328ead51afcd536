import random_sizes as s


def options(r):
    o = s.sizes(r)
    layers = o["num_hidden_layers"]
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False), mlp_bias=s.maybe(r, True, False))
    if r.random() < 0.5: o["no_rope_layers"] = [r.randint(0, 1) for _ in range(layers)]
    else: o["no_rope_layer_interval"] = r.randint(1, 5)
    if r.random() < 0.5:
        o.update(use_sliding_window=True, sliding_window=r.randint(1, 30))
        if r.random() < 0.5: o["layer_types"] = s.layer_types(r, layers)
    return dict(o, rope_parameters=s.rope(r, o))
