import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    s.grouped_experts(r, o)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             sliding_window=r.randint(1, 30), max_window_layers=r.randint(0, 5))
    if r.random() < 0.3: o["layer_types"] = s.layer_types(r, o["num_hidden_layers"])
    return dict(o, rope_parameters=s.rope(r, o))
