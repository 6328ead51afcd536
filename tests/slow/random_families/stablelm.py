import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    o.update(hidden_act=s.activation(r), layer_norm_eps=s.epsilon(r), use_qkv_bias=s.maybe(r, True, False),
             use_parallel_residual=s.maybe(r, True, False), qk_layernorm=s.maybe(r, True, False, 0.1))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear", "dynamic"), share=r.choice([0.25, 0.5, 1.0, 0.67])))


REFUSALS = {"rotate in pairs": "an odd number of rotating channels",
            "qk_layernorm true": "norms of q and k with separate weights per head"}
