import random_sizes as s


def options(r):
    heads = r.randint(1, 5)
    kinds, times = [r.choice(["global", "local"]) for _ in range(r.randint(1, 3))], r.randint(1, 3)
    return dict(vocab_size=r.randint(11, 150), hidden_size=heads * r.randint(1, 9), num_layers=len(kinds) * times, num_heads=heads,
                attention_types=[[kinds, times]], window_size=r.randint(1, 40), intermediate_size=s.maybe(r, r.randint(3, 70)),
                max_position_embeddings=r.choice([48, 64, 100]), layer_norm_epsilon=s.epsilon(r),
                activation_function=r.choice(["gelu_new", "gelu", "relu", "silu"]), tie_word_embeddings=s.maybe(r, True, False),
                bos_token_id=1, eos_token_id=2)
