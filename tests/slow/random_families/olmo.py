import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    o.update(hidden_act=s.activation(r), attention_bias=s.maybe(r, True, False), clip_qkv=s.maybe(r, 2.0, None, 0.1))
    return dict(o, rope_parameters=s.rope(r, o))


REFUSALS = {"clip_qkv": "clipped queries, keys and values"}
