import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    experts = r.randint(2, 9)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), sliding_window=s.maybe(r, r.randint(1, 30)),
             num_local_experts=experts, num_experts_per_tok=r.randint(1, experts))
    return dict(o, rope_parameters=s.rope(r, o))
