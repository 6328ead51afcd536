import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    o.update(hidden_act=r.choice(["gelu_new", "gelu", "relu", "silu"]), layer_norm_eps=s.epsilon(r), qk_layernorm=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "linear", "yarn"), share=r.choice([0.5, 0.25, 0.67, 1.0])))


REFUSALS = {"rotate in pairs": "an odd number of rotating channels"}
