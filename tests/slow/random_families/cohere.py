import random_sizes as s


def sizes(r):
    o = s.sizes(r, own_head=False)
    o.update(hidden_act=s.activation(r), layer_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             logit_scale=r.choice([0.0625, 1.0, 0.3, 2.0]))
    return o


def options(r):
    o = sizes(r)
    o["use_qk_norm"] = s.maybe(r, True, False, 0.1)
    return dict(o, rope_parameters=s.rope(r, o))


REFUSALS = {"use_qk_norm": "norms of q and k with separate weights per head"}
