import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    o.update(hidden_act=r.choice(["relu2", "relu", "silu", "gelu"]), norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             mlp_bias=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear"), share=r.choice([0.5, 1.0, 0.67])))
