import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), use_bias=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o))
