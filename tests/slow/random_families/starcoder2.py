import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    o.update(hidden_act=r.choice(["gelu_pytorch_tanh", "relu", "silu", "gelu"]), norm_epsilon=s.epsilon(r), use_bias=s.maybe(r, True, False),
             sliding_window=s.maybe(r, r.randint(1, 30)))
    return dict(o, rope_parameters=s.rope(r, o))
