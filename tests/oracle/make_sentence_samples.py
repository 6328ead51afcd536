#!/usr/bin/env python3
"""Writes bert_samples.json and t5_samples.json: rows and samples over small documents of sentences, made by Megatron-LM's own data sets.

  make -C MEGATRON/megatron/core/datasets
  python tests/oracle/make_sentence_samples.py MEGATRON tests/fixtures/data

MEGATRON is a checkout of NVIDIA/Megatron-LM. Needs: pip install numpy torch packaging pybind11
"""
import json
import os
import sys

import numpy as np

import megatron_samples

PAD, BOS, CLS, SEP, MASK, EOS, VOCABULARY = 0, 1, 2, 3, 4, 59, 60
SPECIAL = {"pad": PAD, "bos": BOS, "cls": CLS, "sep": SEP, "mask": MASK, "eos": EOS}


def tokenizer(sentinels=1):
    """Ids from 40 on go on with a word."""
    return megatron_samples.Tokenizer([("##" if i >= 40 else "") + str(i) for i in range(VOCABULARY)], SPECIAL,
                                      range(100, 100 + sentinels))


def integers(values):
    return [int(v) for v in values]


def bert_item(item):
    tokens, loss = item["text"], item["loss_mask"]
    length = int(np.flatnonzero(tokens != PAD)[-1]) + 1  # [SEP]; a random token before it may be the padding's
    return {"tokens": integers(tokens[:length]), "labels": integers(np.where(loss, item["labels"], tokens)[:length]),
            "types": integers(item["types"][:length]), "chosen": integers(np.flatnonzero(loss)), "swapped": item["is_random"]}


def t5_item(data, k):
    try:
        item = data[k]
    except IndexError:
        return {"refused": "sentinels"}
    except AssertionError:
        return {"refused": "target"}
    target = int(item["loss_mask"].sum())
    return {"source": integers(item["text_enc"][:int(item["enc_mask"].sum())]),
            "input": integers(item["text_dec"][:target]), "labels": integers(item["labels"][:target])}


def documents_of(random, last_token, count):
    out = [[[int(random.randint(5, last_token)) for _ in range(int(random.randint(2, 15)))]
            for _ in range(int(random.randint(0, 9)))] for _ in range(count)]
    out[3] = [out[0][0] if out[0] else [7, 8]]
    out[5] = [[9] * 513, [10, 11], [12]]  # too long a sentence among others
    return out


def write(name, value):
    with open(os.path.join(sys.argv[2], name), "w") as file:
        json.dump(value, file, separators=(",", ":"))
    print(name, [len(c["rows"]) for c in value["cases"]], file=sys.stderr)


data_sets = megatron_samples.DataSets(sys.argv[1])
documents, cases = documents_of(np.random.RandomState(7), 60, 14), []
for pairs, short, seed, samples in ((True, 0.1, 1234, 40), (True, 0.5, 5, None), (False, 0.1, 99, 25), (False, 0.0, 1, None)):
    data = data_sets.bert(documents, tokenizer(), samples, 32, seed, short, pairs)
    cases.append({"pairs": pairs, "short": short, "seed": seed, "samples": samples, "length": 32,
                  "rows": np.array(data.sample_index).tolist(), "items": [bert_item(data[k]) for k in range(len(data))]})
write("bert_samples.json", {"documents": documents, "cases": cases})

documents, cases = documents_of(np.random.RandomState(11), 59, 12), []
documents[7] = [[int(5 + i % 50) for i in range(90)]]  # longer than a source, without a sentence's end
for source, target, sentinels, probability, ngram, short, seed, samples in (
        (64, 32, 20, 0.15, 10, 0.1, 1234, 30), (32, 32, 20, 0.4, 10, 0.5, 7, None), (128, 64, 30, 0.3, 3, 0.0, 2 ** 31 - 2, 12),
        (64, 12, 3, 0.15, 2, 0.1, 99, 40)):  # the last: of what does not fit some fits
    data = data_sets.t5(documents, tokenizer(sentinels), samples, source, seed, short, probability, ngram, target)
    cases.append({"source": source, "target": target, "sentinels": sentinels, "probability": probability, "ngram": ngram,
                  "short": short, "seed": seed, "samples": samples, "rows": np.array(data.sample_index).tolist(),
                  "items": [t5_item(data, k) for k in range(len(data))]})
write("t5_samples.json", {"documents": documents, "cases": cases})
