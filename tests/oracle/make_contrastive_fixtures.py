#!/usr/bin/env python3
"""Writes tests/fixtures/contrastive: a small BERT, texts that belong together, and the losses of 30 steps of sentence-transformers'
MultipleNegativesRankingLoss from it and from the small llama of tests/fixtures/tuning, with which tests/e2e/embedding_test.cc compares
Stoa's.  Needs torch, transformers, sentence-transformers.

    tests/oracle/make_contrastive_fixtures.py [OUT]

Every step sees all records, so that the order of samples plays no part. fp32, no dropout, AdamW without decay, constant rate, norm
capped at 1.
"""
import json
import os
import random
import shutil
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Pooling, Transformer
from transformers import BertConfig, BertModel, BertTokenizerFast

ROOT = Path(__file__).resolve().parent.parent.parent
LLAMA = ROOT / "tests/fixtures/tuning"
out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/fixtures/contrastive"
STEPS, RATE, RECORDS, LENGTH = 30, 2e-3, 8, 16
WORDS = "stone sea wind bread road roof light word home morning".split()


def records():
    rng = random.Random(7)
    pick = lambda n: " ".join(rng.choice(WORDS) for _ in range(n))
    return [{"query": pick(2 + i % 3), "positive": pick(3 + i % 4), "negative": pick(2 + (i + 1) % 5)} for i in range(RECORDS)]


def bert(path):
    words = sorted(set(WORDS))
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    path.mkdir(parents=True)
    (path / "vocab.txt").write_text("".join(t + "\n" for t in tokens))
    tokenizer = BertTokenizerFast(vocab=str(path / "vocab.txt"))
    (path / "vocab.txt").unlink()
    torch.manual_seed(3)
    model = BertModel(BertConfig(vocab_size=len(tokens), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                 max_position_embeddings=32, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                                 initializer_range=0.2), add_pooling_layer=False)
    model.save_pretrained(path)
    tokenizer.save_pretrained(path)


def encoder(path, pooling):
    words = Transformer(str(path), max_seq_length=LENGTH)
    if words.tokenizer.pad_token is None:
        words.tokenizer.pad_token = "<|endoftext|>"
    return SentenceTransformer(modules=[words, Pooling(words.get_embedding_dimension(), pooling_mode=pooling)], device="cpu")


def run(path, pooling, rows, scale):
    model = encoder(path, pooling)
    model.float().train()
    loss_of = MultipleNegativesRankingLoss(model, scale=scale)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        features = [model.preprocess([r[side] for r in rows]) for side in rows[0]]
        loss = loss_of(features, None)
        losses.append(round(loss.item(), 7))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return losses


def main():
    shutil.rmtree(out, ignore_errors=True)
    bert(out)
    rows = records()
    pairs = [{k: v for k, v in r.items() if k != "negative"} for r in rows]
    for name, data in (("pairs", pairs), ("triplets", rows)):
        (out / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in data))
    found = {
        "mean": run(out, "mean", pairs, 20),
        "cls": run(out, "cls", rows, 20),
        "warm": run(out, "mean", rows, 5),
        "decoder": run(LLAMA, "lasttoken", rows, 20),
    }
    model = encoder(out, "mean")
    texts = [r["query"] for r in rows]
    vectors = [[round(float(x), 6) for x in v] for v in model.encode(texts, normalize_embeddings=True)]
    (out / "losses.json").write_text(json.dumps({"steps": STEPS, "rate": RATE, "length": LENGTH, "runs": found, "vectors": vectors}) + "\n")
    for name, values in found.items():
        print(name, values[:2], values[-1])


main()
