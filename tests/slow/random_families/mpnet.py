import json

import random_encoders as e

LOADER, logprobs = e.LOADER, e.logprobs


def options(r):
    o = e.sizes(r, 2)
    o.pop("type_vocab_size")
    return dict(o, hidden_act="gelu", relative_attention_num_buckets=r.choice([32, 32, 8, 20]), pad_token_id=1)


def finish(directory, r):
    e.write_words(directory, e.ROBERTA, json.loads((directory / "config.json").read_text())["vocab_size"])


def lines(r, config):
    return e.lines(r, config["vocab_size"])


REFUSALS = {"tie_word_embeddings": "an output head that is not tied to the embedding"}
