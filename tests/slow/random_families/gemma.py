import random_sizes as s


def options(r):
    o = s.sizes(r, divisible=False)
    o.setdefault("head_dim", 2 * r.randint(1, 8))
    o.update(hidden_act=r.choice(["gelu_pytorch_tanh", "gelu", "silu"]), rms_norm_eps=s.epsilon(r), attention_bias=s.maybe(r, True, False))
    if r.random() < 0.05: o["use_bidirectional_attention"] = True
    return dict(o, rope_parameters=s.rope(r, o))


REFUSALS = {"use_bidirectional_attention": "bidirectional attention"}
