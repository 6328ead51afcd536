import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    experts = r.randint(2, 9)
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False), num_experts=experts,
             num_experts_per_tok=r.randint(1, experts), norm_topk_prob=s.maybe(r, True, False), clip_qkv=s.maybe(r, 0.5, None, 0.1))
    return dict(o, rope_parameters=s.rope(r, o))


REFUSALS = {"clip_qkv": "clipped queries, keys and values"}
