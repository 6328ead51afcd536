import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    experts = r.randint(2, 9)
    o.setdefault("head_dim", s.head_size(o))
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), num_local_experts=experts, num_experts_per_tok=r.randint(1, experts))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear"), share=r.choice([0.5, 1.0, 0.75])))
