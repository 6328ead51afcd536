import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    o.setdefault("head_dim", s.head_size(o))
    o["head_dim"] = max(4, o["head_dim"])
    share = r.choice([0.5, 1.0])
    if int(o["head_dim"] * share) % 2: share = 1.0
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear"), share=share))
