#!/usr/bin/env python3
"""Writes tests/fixtures/distill: a teacher for the small llama of tests/fixtures/tuning, and the losses and divergences of 50 steps of
distillation from it in torch, which tests/e2e/distill_test.cc compares with Stoa's.  Needs torch, transformers, trl.

    tests/oracle/make_distill_fixtures.py [OUT]

The divergences are torch's kl_div; TRL's generalized_jsd_loss, where it defines the same, must agree. Every step sees all records, so
that the order of samples plays no part. fp32, AdamW without decay, constant rate, norm capped at 1.
"""
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

ROOT = Path(__file__).resolve().parent.parent.parent
BASE = ROOT / "tests/fixtures/tuning"
out = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests/fixtures/distill"
STEPS, RATE = 50, 2e-3


def batch():
    tok = PreTrainedTokenizerFast(tokenizer_file=str(BASE / "tokenizer.json"))
    tok.eos_token = tok.pad_token = "<|endoftext|>"
    records = [json.loads(line) for line in (BASE / "completions.jsonl").read_text().splitlines()]
    prompts = [tok(r["prompt"])["input_ids"] for r in records]
    texts = [tok(r["prompt"] + r["completion"])["input_ids"] + [tok.eos_token_id] for r in records]
    longest = max(map(len, texts))
    ids = torch.tensor([t + [tok.pad_token_id] * (longest - len(t)) for t in texts])
    mask = torch.tensor([[1] * len(t) + [0] * (longest - len(t)) for t in texts])
    labels = torch.tensor([[-100] * len(p) + t[len(p):] + [-100] * (longest - len(t)) for p, t in zip(prompts, texts)])
    return ids, mask, labels


def divergence(kind, student, teacher, temperature, beta):
    """Per token, without the square of the temperature."""
    q, p = F.log_softmax(student / temperature, -1), F.log_softmax(teacher / temperature, -1)
    kl = lambda a, b: F.kl_div(b, a, reduction="none", log_target=True).sum(-1)  # KL(a | b)
    if kind == "forward_kl":
        return kl(p, q)
    if kind == "reverse_kl":
        return kl(q, p)
    m = torch.logsumexp(torch.stack([p + torch.log(torch.tensor(beta)), q + torch.log(torch.tensor(1 - beta))]), 0)
    return beta * kl(p, m) + (1 - beta) * kl(q, m)


def trl_loss():
    try:
        from trl.experimental.gkd import GKDTrainer
    except ImportError:
        from trl import GKDTrainer
    return GKDTrainer.generalized_jsd_loss


def distil(teacher, kind, temperature, weight, beta=0.5):
    ids, mask, labels = batch()
    student = LlamaForCausalLM.from_pretrained(BASE, dtype=torch.float32)
    student.train()
    optimizer = torch.optim.AdamW(student.parameters(), lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0)
    trained = labels[:, 1:] != -100
    with torch.no_grad():
        told = teacher(input_ids=ids, attention_mask=mask).logits[:, :-1]
    losses, divergences = [], []
    for step in range(STEPS):
        logits = student(input_ids=ids, attention_mask=mask).logits[:, :-1]
        compared = divergence(kind, logits[trained], told[trained], temperature, beta).mean()
        if step == 0:
            # TRL: beta 0 is the forward divergence, beta 1 the reverse one; the batch mean is over the tokens that count.
            of_trl = trl_loss()(logits, told, labels=labels[:, 1:], beta={"forward_kl": 0.0, "reverse_kl": 1.0}.get(kind, beta),
                                temperature=temperature)
            assert abs(of_trl.item() - compared.item()) < 1e-5 * max(1, compared.item()), (kind, of_trl.item(), compared.item())
        loss = temperature**2 * compared + weight * F.cross_entropy(logits[trained], labels[:, 1:][trained])
        losses.append(round(loss.item(), 7))
        divergences.append(round(compared.item(), 7))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(student.parameters(), 1.0)
        optimizer.step()
    return dict(losses=losses, divergences=divergences)


def main():
    out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(12)
    config = LlamaConfig.from_pretrained(BASE)
    config.num_hidden_layers, config.hidden_size, config.intermediate_size, config.head_dim = 3, 48, 64, 12
    teacher = LlamaForCausalLM(config).eval()
    teacher.save_pretrained(out / "teacher")
    (out / "teacher/generation_config.json").unlink(missing_ok=True)
    runs = {"forward_kl": dict(temperature=1.0, weight=0.0), "forward_kl warm": dict(temperature=2.0, weight=0.5),
            "reverse_kl": dict(temperature=1.5, weight=0.0), "jsd": dict(temperature=1.0, weight=0.25, beta=0.3)}
    found = [dict(loss=name.split()[0], **keys, **distil(teacher, name.split()[0], **keys)) for name, keys in runs.items()]
    (out / "losses.json").write_text(json.dumps({"steps": STEPS, "rate": RATE, "runs": found}) + "\n")
    for run in found:
        print(run["loss"], run["temperature"], run["losses"][:3], run["losses"][-1])


main()
