import json

import random_encoders as e
import random_sizes as s

LOADER, logprobs = e.LOADER, e.logprobs


def options(r):
    o = e.sizes(r)
    act = r.choice(["gelu", "silu", "relu"])
    return dict(vocab_size=o["vocab_size"], hidden_size=o["num_attention_heads"] * 2 * r.randint(1, 6), intermediate_size=o["intermediate_size"],
                num_hidden_layers=o["num_hidden_layers"], num_attention_heads=o["num_attention_heads"],
                max_position_embeddings=o["max_position_embeddings"], norm_eps=s.epsilon(r), norm_bias=s.maybe(r, True, False),
                attention_bias=s.maybe(r, True, False), mlp_bias=s.maybe(r, True, False), classifier_bias=s.maybe(r, True, False),
                hidden_activation=act, classifier_activation=act, local_attention=r.randint(2, 30),
                layer_types=s.layer_types(r, o["num_hidden_layers"]), decoder_bias=s.maybe(r, True, False, 0.9), pad_token_id=0, bos_token_id=2,
                tie_word_embeddings=o["tie_word_embeddings"], eos_token_id=3, cls_token_id=2, sep_token_id=3,
                rope_parameters={k: dict(rope_type="default", rope_theta=r.choice([1e4, 16e4])) for k in ("full_attention", "sliding_attention")})


def respell(config, r):
    if r.random() < 0.5: config.update(position_embedding_type="absolute", layer_norm_eps=config.get("norm_eps", 1e-5))  # of the first files
    return config


def finish(directory, r):
    e.write_words(directory, e.BERT, json.loads((directory / "config.json").read_text())["vocab_size"])


def lines(r, config):
    return e.lines(r, config["vocab_size"])


REFUSALS = {"tie_word_embeddings": "an output head that is not tied to the embedding",
            "decoder_bias": "a head without bias"}
