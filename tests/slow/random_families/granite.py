import random_sizes as s


def multipliers(r):
    return dict(embedding_multiplier=r.choice([1.0, 12.0, 0.3]), residual_multiplier=r.choice([1.0, 0.22, 1.4]),
                attention_multiplier=r.choice([1.0, 0.0078125, 0.37]), logits_scaling=r.choice([1.0, 8.0, 3.0, 0.7]))


def options(r):
    o = s.sizes(r)
    o.update(multipliers(r), hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             mlp_bias=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o))
