import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False), sliding_window=r.randint(1, 30))
    if r.random() < 0.7: o["layer_types"] = s.layer_types(r, o["num_hidden_layers"])
    if r.random() < 0.2: o["layer_types"] = ["full_attention"] * o["num_hidden_layers"]
    return dict(o, rope_parameters=dict(full_attention=s.rope(r, o, kinds=("default", "linear", "yarn", "llama3")),
                                        sliding_attention=dict(rope_type="default", rope_theta=r.choice([5e5, 1e4]))))
