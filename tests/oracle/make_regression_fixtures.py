#!/usr/bin/env python3
"""Writes tests/fixtures/regression: a small BERT with a head of one number, texts with numbers, what transformers says of them, and the
losses of 50 steps of torch, which tests/e2e/labelled_test.cc compares with Stoa's.  Needs torch, transformers.

    tests/oracle/make_regression_fixtures.py [OUT]

Every step sees all records, so that the order of samples plays no part. fp32, AdamW without decay, constant rate, norm capped at 1.
"""
import json
import os
import random
import shutil
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parent.parent.parent
out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/fixtures/regression"
STEPS, RATE, RECORDS = 50, 2e-3, 8
WORDS = "stone sea wind bread road roof light word home morning".split()


def main():
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    torch.manual_seed(9)
    rng = random.Random(5)
    shutil.copy(ROOT / "tests/fixtures/token/bert/tokenizer.json", out)
    (out / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", "cls_token": "[CLS]", "sep_token": "[SEP]",
                                                           "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]"}))
    tok = PreTrainedTokenizerFast(tokenizer_file=str(out / "tokenizer.json"), cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]")
    size = max(tok.get_vocab().values()) + 1
    config = BertConfig(vocab_size=size, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
                        max_position_embeddings=40, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, num_labels=1,
                        id2label={0: "score"}, label2id={"score": 0}, initializer_range=0.2)
    model = BertForSequenceClassification(config)
    model.save_pretrained(out)
    rows = [{"text": " ".join(rng.choice(WORDS) for _ in range(3 + i % 4)), "label": round(rng.uniform(-2, 3), 3)} for i in range(RECORDS)]
    rows[2]["label"] = 1  # an integer is a number too
    (out / "scored.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    ids = [tok(r["text"])["input_ids"] for r in rows]
    assert all(i[0] == tok.cls_token_id and i[-1] == tok.sep_token_id for i in ids)
    longest = max(map(len, ids))
    given = torch.tensor([i + [tok.pad_token_id] * (longest - len(i)) for i in ids])
    mask = torch.tensor([[1] * len(i) + [0] * (longest - len(i)) for i in ids])
    labels = torch.tensor([float(r["label"]) for r in rows])
    model.train()
    with torch.no_grad():
        scores = [round(x, 7) for x in model(input_ids=given, attention_mask=mask).logits.flatten().tolist()]
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        loss = model(input_ids=given, attention_mask=mask, labels=labels).loss
        losses.append(round(loss.item(), 7))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    (out / "losses.json").write_text(json.dumps({"steps": STEPS, "rate": RATE, "scores": scores, "losses": losses}) + "\n")
    print(scores, losses[:2], losses[-1])


main()
