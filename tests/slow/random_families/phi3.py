import random_sizes as s


def options(r):
    o = s.sizes(r, own_head=False)
    share = r.choice([1.0, 0.75, 0.5, 0.3])
    o.update(hidden_act=s.activation(r), rms_norm_eps=s.epsilon(r), sliding_window=s.maybe(r, r.randint(1, 30)),
             original_max_position_embeddings=r.choice([16, 33, o["max_position_embeddings"]]))
    rope = s.rope(r, o, kinds=("default", "longrope"), share=share)
    rope.pop("original_max_position_embeddings", None)
    pairs = int(s.head_size(o) * share) // 2
    for key in ("short_factor", "long_factor"):
        if key in rope: rope[key] = rope[key][:pairs]
    return dict(o, rope_parameters=rope)


REFUSALS = {"longrope needs": "longrope with an odd number of channels"}
