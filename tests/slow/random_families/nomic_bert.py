import json

import random_encoders as e
import random_sizes as s

LOADER, logprobs = e.LOADER, e.logprobs


def options(r):
    o = e.sizes(r)
    o["hidden_size"] = o["num_attention_heads"] * 2 * r.randint(1, 6)
    if r.random() < 0.3: o["head_dim"] = 2 * r.randint(1, 6)
    o.update(hidden_act=r.choice(["silu", "gelu", "relu"]), pad_token_id=0)
    return dict(o, rope_parameters=s.rope(r, o, kinds=("default", "linear"), theta=(1000.0, 1e4)))


def finish(directory, r):
    e.write_words(directory, e.BERT, json.loads((directory / "config.json").read_text())["vocab_size"])


def lines(r, config):
    return e.lines(r, config["vocab_size"])


REFUSALS = {"leave out num_query_groups": "head sizes other than hidden size / heads",
            "tie_word_embeddings": "an output head that is not tied to the embedding"}
