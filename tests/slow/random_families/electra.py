import json

import random_encoders as e

LOADER, logprobs = e.LOADER, e.logprobs


def options(r):
    o = e.sizes(r)
    return dict(o, embedding_size=o["hidden_size"] if r.random() < 0.9 else r.randint(2, 30), hidden_act=r.choice(["gelu", "gelu", "relu"]),
                pad_token_id=0)


def finish(directory, r):
    e.write_words(directory, e.BERT, json.loads((directory / "config.json").read_text())["vocab_size"])


def lines(r, config):
    return e.lines(r, config["vocab_size"])


REFUSALS = {"tie_word_embeddings": "an output head that is not tied to the embedding",
            "embedding_size": "embeddings narrower than the layers", "hidden_act": "a head whose activation differs from the layers'"}
