import random_sizes as s
from random_families.cohere import sizes


def options(r):
    o = sizes(r)
    o["sliding_window"] = r.randint(1, 30)
    if r.random() < 0.7: o["layer_types"] = s.layer_types(r, o["num_hidden_layers"])
    return dict(o, rope_parameters=s.rope(r, o))
