import random_sizes as s


def options(r):
    o = s.sizes(r)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r))
    if r.random() < 0.5: o.update(use_sliding_window=True, sliding_window=r.randint(1, 30), max_window_layers=r.randint(0, 5))
    if r.random() < 0.3: o.update(use_sliding_window=True, sliding_window=5, layer_types=s.layer_types(r, o["num_hidden_layers"]))
    return dict(o, rope_parameters=s.rope(r, o))
