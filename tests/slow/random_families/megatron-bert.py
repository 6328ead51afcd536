import json

import random_encoders as e

LOADER, logprobs = e.LOADER, e.logprobs


def options(r):
    return dict(e.sizes(r, 0), pad_token_id=0)


def finish(directory, r):
    e.write_words(directory, e.BERT, json.loads((directory / "config.json").read_text())["vocab_size"])


def lines(r, config):
    return e.lines(r, config["vocab_size"])


REFUSALS = {"tie_word_embeddings": "an output head that is not tied to the embedding"}
