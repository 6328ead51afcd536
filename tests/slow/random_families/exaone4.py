import random_sizes as s


def options(r):
    o = s.sizes(r)
    layers = o["num_hidden_layers"]
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), sliding_window=s.maybe(r, r.randint(1, 30), None, 0.8))
    if o["sliding_window"] is None: o["layer_types"] = ["full_attention"] * layers  # without, transformers divides by 0
    elif r.random() < 0.5: o["layer_types"] = s.layer_types(r, layers)
    else: o["sliding_window_pattern"] = r.randint(1, 5)
    return dict(o, rope_parameters=s.rope(r, o))
