import random_sizes as s


def options(r):
    heads = r.randint(1, 12)
    attention = dict(softmax_scale=s.maybe(r, r.choice([0.3, 1.0])), clip_qkv=s.maybe(r, 2.0, None, 0.1))
    return dict(vocab_size=r.randint(11, 150), d_model=heads * r.randint(1, 9), n_heads=heads, n_layers=r.randint(1, 5),
                max_seq_len=r.choice([48, 64, 100]), layer_norm_epsilon=s.epsilon(r), bos_token_id=1, eos_token_id=2,
                tie_word_embeddings=s.maybe(r, True, False), attn_config=attention)


def positions(config):
    return config["max_seq_len"]


REFUSALS = {"clip_qkv": "clipped queries, keys and values"}
