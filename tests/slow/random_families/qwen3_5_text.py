import random_sizes as s

lines = s.long_lines


def options(r):
    o = s.sizes(r, divisible=False)
    s.hybrid(r, o)
    return o


REFUSALS = {"hidden_act other than": "convolutions with an activation other than SiLU",
            "attention_bias true": "biases in attention with a gated output"}
