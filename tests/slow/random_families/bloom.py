import random_sizes as s


def options(r):
    heads = r.randint(1, 12)
    return dict(vocab_size=r.randint(11, 150), hidden_size=heads * r.randint(1, 9), n_layer=r.randint(1, 5), n_head=heads,
                layer_norm_epsilon=s.epsilon(r), tie_word_embeddings=s.maybe(r, True, False), bos_token_id=1, eos_token_id=2,
                apply_residual_connection_post_layernorm=s.maybe(r, True, False, 0.1))


REFUSALS = {"apply_residual_connection_post_layernorm": "residual taken after the norm"}
