import random_sizes as s

lines = s.long_lines


def options(r):
    o = s.sizes(r, divisible=False)
    s.hybrid(r, o)
    s.hybrid_experts(r, o)
    o.update(norm_topk_prob=s.maybe(r, True, False), decoder_sparse_step=r.choice([1, 1, 2, 3]),
             mlp_only_layers=[l for l in range(o["num_hidden_layers"]) if r.random() < 0.2])
    return o


REFUSALS = {"hidden_act other than": "convolutions with an activation other than SiLU",
            "attention_bias true": "biases in attention with a gated output"}
