import json

import random_encoders as e

LOADER, logprobs = e.LOADER, e.logprobs


def options(r):
    o = e.sizes(r)
    return dict(vocab_size=o["vocab_size"], dim=o["hidden_size"], hidden_dim=o["intermediate_size"], n_layers=o["num_hidden_layers"],
                n_heads=o["num_attention_heads"], max_position_embeddings=o["max_position_embeddings"], activation=r.choice(["gelu", "relu"]),
                dropout=0.0, attention_dropout=0.0, sinusoidal_pos_embds=r.random() < 0.1,
                tie_word_embeddings=o["tie_word_embeddings"], pad_token_id=0)


def finish(directory, r):
    e.write_words(directory, e.BERT, json.loads((directory / "config.json").read_text())["vocab_size"])


def lines(r, config):
    return e.lines(r, config["vocab_size"])


REFUSALS = {"tie_word_embeddings": "an output head that is not tied to the embedding"}
