import random_sizes as s


def options(r):
    heads, head = r.randint(1, 5), 2 * r.randint(1, 8)
    return dict(vocab_size=r.randint(11, 150), n_embd=heads * head, n_layer=r.randint(1, 5), n_head=heads, rotary_dim=2 * r.randint(1, head // 2),
                n_inner=s.maybe(r, r.randint(3, 70)), n_positions=r.choice([48, 64, 100]), layer_norm_epsilon=s.epsilon(r),
                activation_function=r.choice(["gelu_new", "gelu", "relu", "silu"]), tie_word_embeddings=s.maybe(r, True, False),
                bos_token_id=1, eos_token_id=2)
