"""The model that sees images: its text."""
import random_sizes as s

SLIDING = dict(rope_type="default", rope_theta=100.0)


def options(r):
    o = s.sizes(r)
    o.setdefault("head_dim", s.head_size(o))
    o["vocab_size"] = max(o["vocab_size"], 20)
    o.update(hidden_activation=s.activation(r), rms_norm_eps=s.epsilon(r), query_pre_attn_scalar=r.choice([3, 16, 256]),
             sliding_window=r.randint(1, 30), layer_types=s.layer_types(r, o["num_hidden_layers"]))
    o["rope_parameters"] = dict(full_attention=s.rope(r, o, kinds=("default", "linear")), sliding_attention=SLIDING)
    last = o["vocab_size"] - 1
    return dict(text_config=o, tie_word_embeddings=o["tie_word_embeddings"], image_token_id=last, boi_token_id=last - 1,
                eoi_token_id=last - 2, mm_tokens_per_image=4,
                vision_config=dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, image_size=8,
                                   patch_size=4))


def positions(config):
    return config["text_config"]["max_position_embeddings"]


def lines(r, config):
    vocabulary = config["text_config"]["vocab_size"]
    return [[r.randrange(vocabulary - 3) for _ in range(n)] for n in (r.randint(2, 40), 33)]
