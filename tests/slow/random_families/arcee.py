import random_sizes as s


def options(r):
    o = s.sizes(r)
    o.update(hidden_act=r.choice(["relu2", "relu", "silu", "gelu"]), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             mlp_bias=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o))
