import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), sliding_window=r.randint(1, 30))
    if r.random() < 0.7: o["layer_types"] = s.layer_types(r, o["num_hidden_layers"])
    return dict(o, rope_parameters=s.rope(r, o))
