import random_sizes as s
from random_families.granite import multipliers


def options(r):
    o = s.sizes(r)
    experts = r.randint(2, 9)
    o.update(multipliers(r), hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             num_local_experts=experts, num_experts_per_tok=r.randint(1, experts))
    return dict(o, rope_parameters=s.rope(r, o))
