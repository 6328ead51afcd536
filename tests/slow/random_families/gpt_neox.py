import random_sizes as s


def options(r):
    o = s.sizes(r, even_head=False, own_head=False)
    o.pop("num_key_value_heads")
    share = r.choice([0.25, 0.5, 0.67, 1.0, 0.34])
    o.update(hidden_act=r.choice(["gelu", "gelu_new", "relu", "silu", "quick_gelu"]), layer_norm_eps=s.epsilon(r),
             attention_bias=s.maybe(r, True, False), use_parallel_residual=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear", "dynamic"), share=share))


REFUSALS = {"one more than there are": "fully rotating heads with an odd number of channels"}
