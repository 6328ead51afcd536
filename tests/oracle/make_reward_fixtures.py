#!/usr/bin/env python3
"""Writes tests/fixtures/reward: a small llama with a head of one label, a LoRA adapter of PEFT for the language model of
tests/fixtures/tuning, pairs, the scores that transformers gives them, and the losses of 50 steps of TRL's RewardTrainer, with which
tests/e2e/reward_test.cc compares Stoa's.  Needs torch, transformers, trl, peft, datasets.

    tests/oracle/make_reward_fixtures.py [OUT]

Every step sees all records, so that the order of samples plays no part. fp32, AdamW without decay, constant rate, norm capped at 1.
"""
import json
import os
import random
import shutil
import sys
import tempfile
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
import torch
from datasets import Dataset
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForSequenceClassification, LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RewardConfig, RewardTrainer

ROOT = Path(__file__).resolve().parent.parent.parent
BASE = ROOT / "tests/fixtures/tuning"
out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/fixtures/reward"
STEPS, RATE, RECORDS = 50, 2e-3, 8
WORDS = "stone sea wind bread road roof light word home morning".split()
PAD, EOS = "~", "<|endoftext|>"


def records():
    rng = random.Random(4)
    pick = lambda n: " ".join(rng.choice(WORDS) for _ in range(n))
    return [{"prompt": f"Question: {pick(3)}\nAnswer:\n", "chosen": pick(2 + i % 4), "rejected": pick(2 + (i + 1) % 3),
             "margin": round(rng.random(), 3)} for i in range(RECORDS)]


def tokenizer(pad):
    t = PreTrainedTokenizerFast(tokenizer_file=str(BASE / "tokenizer.json"))
    t.eos_token, t.pad_token = EOS, pad
    return t


def model(path, tok):
    m = AutoModelForSequenceClassification.from_pretrained(path, num_labels=1, dtype=torch.float32)
    m.config.pad_token_id = tok.pad_token_id
    return m


def scores(m, tok, rows):
    """Of prompt and answer, ended as RewardTrainer ends them."""
    m.eval()
    with torch.no_grad():
        return [[round(m(input_ids=torch.tensor([tok(r["prompt"] + r[side] + EOS)["input_ids"]])).logits.item(), 7)
                 for side in ("chosen", "rejected")] for r in rows]


def losses(m, tok, rows, **extra):
    args = RewardConfig(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=RECORDS, max_steps=STEPS, learning_rate=RATE,
                        lr_scheduler_type="constant", warmup_steps=0, weight_decay=0.0, adam_beta1=0.9, adam_beta2=0.95,
                        adam_epsilon=1e-8, max_grad_norm=1.0, logging_steps=1, save_strategy="no", report_to="none", use_cpu=True,
                        bf16=False, fp16=False, gradient_checkpointing=False, max_length=128, seed=1, **extra)
    trainer = RewardTrainer(model=m, args=args, train_dataset=Dataset.from_list(rows), processing_class=tok)
    trainer.train()
    return [{k: round(e[k], 7) for k in ("loss", "accuracy", "margin")} for e in trainer.state.log_history if "loss" in e]


def main():
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    torch.manual_seed(6)
    tok, eos_pads = tokenizer(PAD), tokenizer(EOS)
    config = LlamaConfig.from_pretrained(BASE)
    config.num_labels, config.pad_token_id = 1, tok.pad_token_id
    whole = LlamaForSequenceClassification(config)
    whole.save_pretrained(out)
    shutil.copy(BASE / "tokenizer.json", out)
    (out / "tokenizer_config.json").write_text(json.dumps({"eos_token": EOS, "pad_token": PAD, "tokenizer_class": "PreTrainedTokenizerFast"}))
    rows = records()
    plain = [{k: v for k, v in r.items() if k != "margin"} for r in rows]
    for name, data in (("pairs", plain), ("margins", rows)):
        (out / f"{name}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in data))
    # An adapter of the language model, as PEFT starts it, but with B that is not zero.
    adapted = get_peft_model(model(BASE, eos_pads), LoraConfig(task_type="SEQ_CLS", r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"]))
    for name, p in adapted.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(p, std=0.05)
    adapted.save_pretrained(out / "adapter")
    (out / "adapter/README.md").unlink(missing_ok=True)
    kept = json.loads((out / "adapter/adapter_config.json").read_text())
    kept["base_model_name_or_path"] = "tests/fixtures/tuning"
    (out / "adapter/adapter_config.json").write_text(json.dumps(kept, indent=2) + "\n")
    found = {
        "reward": losses(model(out, tok), tok, plain),
        "margins": losses(model(out, tok), tok, rows, center_rewards_coefficient=0.05),
        "eos_pads": losses(model(out, eos_pads), eos_pads, plain),
        "lora": losses(PeftModel.from_pretrained(model(BASE, eos_pads), out / "adapter", is_trainable=True), eos_pads, plain),
    }
    given = {
        "reward": scores(model(out, tok), tok, plain),
        "eos_pads": scores(model(out, eos_pads), eos_pads, plain),
        "lora": scores(PeftModel.from_pretrained(model(BASE, eos_pads), out / "adapter"), eos_pads, plain),
    }
    (out / "losses.json").write_text(json.dumps({"steps": STEPS, "rate": RATE, "scores": given, "runs": found}) + "\n")
    for name, values in found.items():
        print(name, values[:2], values[-1], given.get(name, [])[:2])


main()
