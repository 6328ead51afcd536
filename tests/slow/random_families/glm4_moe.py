import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    s.grouped_experts(r, o)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False),
             use_qk_norm=s.maybe(r, True, False))
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "default", "linear", "yarn"), share=r.choice([0.5, 1.0])))
