import random_sizes as s


def options(r):
    heads = r.randint(1, 5)
    return dict(vocab_size=r.randint(11, 150), n_embd=heads * r.randint(1, 9), n_layer=r.randint(1, 5), n_head=heads,
                n_inner=s.maybe(r, r.randint(3, 70)), n_positions=r.choice([48, 64, 100]), layer_norm_epsilon=s.epsilon(r),
                activation_function=r.choice(["gelu_new", "gelu", "relu", "silu", "quick_gelu"]), tie_word_embeddings=s.maybe(r, True, False),
                bos_token_id=1, eos_token_id=2, scale_attn_by_inverse_layer_idx=s.maybe(r, True, False, 0.1),
                scale_attn_weights=s.maybe(r, True, False, 0.7))


REFUSALS = {"scale_attn_by_inverse_layer_idx": "attention scores scaled by the layer index"}
