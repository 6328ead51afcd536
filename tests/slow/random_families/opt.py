import random_sizes as s


def options(r):
    heads = r.randint(1, 5)
    hidden = heads * r.randint(1, 9)
    o = dict(vocab_size=r.randint(11, 150), hidden_size=hidden, num_hidden_layers=r.randint(1, 5), num_attention_heads=heads,
             ffn_dim=r.randint(3, 90), max_position_embeddings=r.choice([48, 64, 100]), pad_token_id=None, bos_token_id=1, eos_token_id=2,
             activation_function=r.choice(["relu", "gelu", "gelu_new", "silu"]), enable_bias=s.maybe(r, True, False, 0.7),
             tie_word_embeddings=s.maybe(r, True, False), do_layer_norm_before=s.maybe(r, True, False, 0.9),
             layer_norm_elementwise_affine=s.maybe(r, True, False, 0.8), word_embed_proj_dim=s.maybe(r, hidden, r.randint(2, 30), 0.9))
    return {**o, "_remove_final_layer_norm": True} if r.random() < 0.05 else o


REFUSALS = {"_remove_final_layer_norm": "no norm after the last layer",
            "do_layer_norm_before": "post-norm decoders",
            "word_embed_proj_dim": "embeddings narrower than the layers"}
