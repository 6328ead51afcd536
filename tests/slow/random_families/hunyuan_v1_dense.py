import random_sizes as s


def options(r):
    o = s.sizes(r)
    o.setdefault("head_dim", s.head_size(o))
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False))
    rope = s.rope(r, o, kinds=("default", "linear", "llama3"))
    if o["head_dim"] > 2 and r.random() < 0.5: rope = dict(rope_type="dynamic", rope_theta=1e4, factor=1.0, alpha=r.choice([1000.0, 50.0, 1.0]))
    return dict(o, rope_parameters=rope)
