#!/usr/bin/env python3
"""Writes tests/fixtures/data/bert_samples.json: rows and samples of a masked language model over small documents, by numpy's
RandomState and the C++ generators' formulas, written from the rules of Megatron's data sets.

  python tests/oracle/make_bert_samples.py tests/fixtures/data/bert_samples.json

Needs: pip install numpy
"""
import json
import sys

import numpy as np

CLS, SEP, MASK, PAD, VOCABULARY = 2, 3, 4, 0, 60
CONTINUES = [int(i >= 40) for i in range(VOCABULARY)]  # ids from 40 on go on with a word


class Mt19937:
    """std::mt19937: the 32-bit stream of RandomState."""

    def __init__(self, seed):
        self.state = np.random.RandomState(seed)

    def __call__(self):
        return int(self.state.randint(0, 2 ** 32, dtype=np.uint64))


def mt19937_64(seed):
    n, m, mask = 312, 156, (1 << 64) - 1
    x = [seed & mask]
    for i in range(1, n):
        x.append((6364136223846793005 * (x[-1] ^ (x[-1] >> 62)) + i) & mask)
    at = n
    while True:
        if at == n:
            for i in range(n):
                y = (x[i] & 0xFFFFFFFF80000000) | (x[(i + 1) % n] & 0x7FFFFFFF)
                x[i] = x[(i + m) % n] ^ (y >> 1) ^ (0xB5026F5AA96619E9 if y & 1 else 0)
            at = 0
        y = x[at]
        at += 1
        y ^= (y >> 29) & 0x5555555555555555
        y ^= (y << 17) & 0x71D67FFFEDA60000
        y ^= (y << 37) & 0xFFF7EEE000000000
        yield y ^ (y >> 43)


def rows_of(documents, samples, longest, short, least, seed):
    draw, ratio = Mt19937(seed), int(round(1 / short)) if short > 0 else 0

    def target():
        if ratio == 0:
            return longest
        u = draw()
        return 2 + u % (longest - 1) if u % ratio == 0 else longest

    rows, first = [], np.cumsum([0] + [len(d) for d in documents])
    while True:
        for d, document in enumerate(documents):
            left = len(document)
            if left < max(1, least) or (left > 1 and max(map(len, document)) > 512):
                continue
            goal, begin, tokens, count = target(), int(first[d]), 0, 0
            for s, sentence in enumerate(document):
                tokens, count, left = tokens + len(sentence), count + 1, left - 1
                if (tokens >= goal and left > 1 and count >= least) or left == 0:
                    end = int(first[d]) + s + 1
                    rows.append([begin, end, goal])
                    begin, tokens, count, goal = end, 0, 0, target()
        if samples is None or len(rows) >= samples:
            break
    generator = mt19937_64(seed + 1)
    for i in range(len(rows) - 1, 0, -1):
        j = next(generator) % (i + 1)
        rows[i], rows[j] = rows[j], rows[i]
    return rows


def mask(tokens, goal, probability, longest_run, random):
    words = []
    for i, t in enumerate(tokens):
        if t in (CLS, SEP):
            continue
        if words and CONTINUES[t] and words[-1][-1] == i - 1:
            words[-1].append(i)
        else:
            words.append([i])
    most = min(probability * goal, max(1, int(round(len(tokens) * probability))))
    sizes = np.arange(1, longest_run + 1)
    p = 1.0 / sizes
    p = p / p.sum(keepdims=True)
    runs = [[words[i:i + n] for n in sizes] for i in range(len(words))]
    random.shuffle(runs)
    out, chosen = list(tokens), {}
    for run in runs:
        if len(chosen) >= most:
            break
        n = int(random.choice(sizes, p=p / p.sum(keepdims=True)))
        while n > 0:
            indices = sum(run[n - 1], [])
            if len(chosen) + len(indices) <= most:
                break
            n -= 1
        if n == 0 or any(i in chosen for i in indices):
            continue
        for i in indices:
            chosen[i] = tokens[i]
            if random.random_sample() < 0.8:
                out[i] = MASK
            elif random.random_sample() >= 0.5:
                out[i] = int(random.randint(0, VOCABULARY))
    return out, sorted(chosen)


def sample(sentences, row, index, pairs, seed, probability):
    begin, end, goal = row
    parts = sentences[begin:end]
    random = np.random.RandomState((seed + index) % 2 ** 32)
    pivot, swapped = len(parts), False
    if pairs:
        pivot = 1 if len(parts) < 3 else int(random.randint(1, len(parts)))
        swapped = bool(random.random_sample() < 0.5)
    a, b = sum(parts[:pivot], []), sum(parts[pivot:], [])
    if swapped:
        a, b = b, a
    while len(a) + len(b) > goal:
        longer = a if len(a) > len(b) else b
        del longer[0 if random.random_sample() < 0.5 else -1]
    tokens = [CLS] + a + [SEP] + (b + [SEP] if b else [])
    types = [0] * (len(a) + 2) + ([1] * (len(b) + 1) if b else [])
    masked, chosen = mask(tokens, goal, probability, 3, random)
    return {"tokens": masked, "labels": tokens, "types": types, "chosen": chosen, "swapped": int(swapped)}


rng = np.random.RandomState(7)
documents = []
for d in range(14):
    documents.append([[int(5 + rng.randint(0, 55)) for _ in range(int(rng.randint(2, 15)))] for _ in range(int(rng.randint(0, 9)))])
documents[3] = [documents[0][0] if documents[0] else [7, 8]]
documents[5] = [[9] * 513, [10, 11], [12]]
cases = []
for pairs, short, seed, samples in ((True, 0.1, 1234, 40), (True, 0.5, 5, None), (False, 0.1, 99, 25), (False, 0.0, 1, None)):
    length = 32
    rows = rows_of(documents, samples, length - 3, short, 2 if pairs else 1, seed)
    sentences = [s for d in documents for s in d]
    cases.append({"pairs": pairs, "short": short, "seed": seed, "samples": samples, "length": length, "rows": rows,
                  "items": [sample(sentences, r, i, pairs, seed, 0.15) for i, r in enumerate(rows)]})
json.dump({"documents": documents, "cases": cases}, open(sys.argv[1], "w"), separators=(",", ":"))
print([len(c["rows"]) for c in cases], file=sys.stderr)
