#!/usr/bin/env python3
"""Loss curves of Stoa beside those of PyTorch: the same initial weights, batches, optimizer and schedule.

A small GPT-2 and a small Llama (4 layers of --hidden) learn a random Markov chain over 2,048 tokens. transformers writes the initial
weights, `stoa train` reads them (restore_from_path). The batches of each step are computed here again with numpy from the published
rules of Megatron's GPTDataset (one epoch), so the order of the data is checked too. AdamW (0.9, 0.95, 1e-8), decay 0.1 on matrices,
clipping at 1.0, cosine after warm-up with the rate of the samples seen before a step.

  fp32   50 steps: the losses and gradient norms of Stoa and PyTorch eager; bar: losses within 1e-3
  bf16   200 steps, Stoa against PyTorch eager under autocast, and that against torch.compile of itself. Two runs that differ in
         rounding drift apart, so the bar is: Stoa is no further from eager than eager is from its compiled self, over all seeds
         (root mean square). Stoa runs with fp32_residual_connection false (its default) and true (as autocast does).

  python tests/oracle/loss_curves.py fp32 bf16 [--models gpt2 llama] [--seeds 1 2 3] [--json FILE]

Needs: pip install torch transformers; a C++ compiler for torch.compile. Exit status 1 when a bar is missed.
"""
import argparse
import json
import math
import pathlib
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
import transformers

import oracle

VOCABULARY, LENGTH, BATCH = 2048, 128, 8
OPTIM = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8,
         "sched": {"name": "CosineAnnealing", "warmup_steps": 10, "min_lr": 1e-4}}
CLIP, DATA_SEED = 1.0, 1234
SIZE = dict(vocabulary=VOCABULARY, layers=4, heads=4, positions=LENGTH)
MODELS = {"gpt2": lambda hidden: oracle.gpt2(hidden=hidden, **SIZE),
          "llama": lambda hidden: oracle.llama_like("llama", groups=2, hidden=hidden, ffn=5 * hidden // 2, **SIZE)}


def markov_documents(tokens, rng):
    successors = rng.integers(0, VOCABULARY, (VOCABULARY, 16))
    weights = 1 / np.arange(1, 17)
    cumulative = np.cumsum(weights / weights.sum())
    documents, made = [], 0
    while made < tokens:
        length = int(rng.integers(40, 600))
        draws = np.searchsorted(cumulative, rng.random(length))
        document = np.empty(length, np.int64)
        state = int(rng.integers(VOCABULARY))
        for i in range(length):
            document[i] = state = successors[state, min(15, draws[i])]
        documents.append(document)
        made += length
    return documents


def batches(documents, steps):
    """Inputs and labels of each step: Megatron's GPTDataset with one epoch, in the order of its samples."""
    rng = np.random.RandomState(DATA_SEED)
    order = np.arange(len(documents), dtype=np.int32)
    rng.shuffle(order)
    stream = np.concatenate([documents[d] for d in order])  # a sample's S + 1 tokens share one with the next
    count = (len(stream) - 1) // LENGTH
    assert len(stream) >= steps * BATCH * LENGTH + 1, "the corpus must last for one epoch"
    shuffle = np.arange(count, dtype=np.uint32)
    rng.shuffle(shuffle)
    for step in range(steps):
        rows = [stream[j * LENGTH : (j + 1) * LENGTH + 1] for j in map(int, shuffle[step * BATCH : (step + 1) * BATCH])]
        rows = torch.tensor(np.stack(rows))
        yield rows[:, :-1], rows[:, 1:]


def rate(step, steps):
    """`step` counts the updates before this one."""
    sched, peak = OPTIM["sched"], OPTIM["lr"]
    warmup = sched["warmup_steps"]
    if step <= warmup: return peak * step / warmup
    return sched["min_lr"] + (math.cos(math.pi * (step - warmup) / (steps - warmup)) + 1) / 2 * (peak - sched["min_lr"])


def torch_curve(weights, documents, steps, autocast, compiled):
    model = transformers.AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32, attn_implementation="sdpa").train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.ndim > 1], "weight_decay": OPTIM["weight_decay"]},
                                   {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}],
                                  lr=0.0, betas=tuple(OPTIM["betas"]), eps=OPTIM["eps"])

    def loss_of(tokens, labels):
        logits = model(input_ids=tokens, use_cache=False).logits
        return F.cross_entropy(logits.float().view(-1, VOCABULARY), labels.reshape(-1))

    run = torch.compile(loss_of) if compiled else loss_of
    curve = []
    for step, (tokens, labels) in enumerate(batches(documents, steps)):
        for group in optimizer.param_groups: group["lr"] = rate(step, steps)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = run(tokens, labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append((loss.item(), norm.item()))
    return np.array(curve)


def stoa_curve(stoa, folder, name, model, weights, steps, precision, residual):
    config, run = folder / f"{name}.yaml", folder / name
    oracle.write_config(config, {**model, "fp32_residual_connection": residual, "seed": DATA_SEED}, folder / "corpus",
                        {"max_steps": steps, "precision": precision, "val_check_interval": 0, "log_every_n_steps": 1,
                         "gradient_clip_val": CLIP},
                        OPTIM, batch=BATCH, weights=weights)
    oracle.call(stoa, "train", config, "--output", run)
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == list(range(1, steps + 1))
    for step, line in enumerate(lines):
        assert abs(line["lr"] - rate(step, steps)) <= 1e-12, f"step {step + 1}: rate {line['lr']}, expected {rate(step, steps)}"
    return np.array([(line["loss"], line["grad_norm"]) for line in lines])


def distance(a, b):
    d = a[:, 0] - b[:, 0]
    return {"max": float(np.max(np.abs(d))), "rms": float(np.sqrt(np.mean(d**2))), "mean": float(np.mean(d)),
            "norm_max_relative": float(np.max(np.abs(a[:, 1] / b[:, 1] - 1)))}


def prepare(name, hidden, seed, folder, steps):
    theirs, ours = MODELS[name](hidden)
    torch.manual_seed(seed)
    model = transformers.AutoModelForCausalLM.from_config(theirs).float()
    model.save_pretrained(folder / "weights")
    documents = markov_documents(steps * BATCH * LENGTH + 5000, np.random.default_rng(seed))
    oracle.write_corpus(folder / "corpus", documents)
    return ours, documents


def show(row):
    print(json.dumps(row), flush=True)
    return row


def run_fp32(args, rows):
    for name in args.models:
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            ours, documents = prepare(name, args.hidden, args.seeds[0], folder, args.fp32_steps)
            theirs = torch_curve(folder / "weights", documents, args.fp32_steps, False, False)
            mine = stoa_curve(args.stoa, folder, "fp32", ours, folder / "weights", args.fp32_steps, "fp32", False)
            d = distance(mine, theirs)
            rows.append(show({"model": name, "precision": "fp32", "steps": args.fp32_steps, "pair": "stoa - eager",
                              "first_loss": theirs[0, 0], "last_loss": theirs[-1, 0], **d, "bar_max": 1e-3,
                              "passed": d["max"] <= 1e-3}))


def run_bf16(args, rows):
    for name in args.models:
        found = {}
        for seed in args.seeds:
            with tempfile.TemporaryDirectory() as folder:
                folder = pathlib.Path(folder)
                ours, documents = prepare(name, args.hidden, seed, folder, args.bf16_steps)
                curves = {}
                begin = time.monotonic()
                curves["eager"] = torch_curve(folder / "weights", documents, args.bf16_steps, True, False)
                if not args.no_compile:
                    curves["compiled"] = torch_curve(folder / "weights", documents, args.bf16_steps, True, True)
                curves["fp32"] = torch_curve(folder / "weights", documents, args.bf16_steps, False, False)
                for residual in (False, True):
                    key = "stoa fp32 residual" if residual else "stoa"
                    curves[key] = stoa_curve(args.stoa, folder, key.replace(" ", "-"), ours, folder / "weights", args.bf16_steps,
                                             "bf16", residual)
                seconds = time.monotonic() - begin
            for a, b in [("compiled", "eager"), ("stoa", "eager"), ("stoa fp32 residual", "eager"), ("stoa", "compiled"),
                         ("eager", "fp32"), ("compiled", "fp32"), ("stoa", "fp32"), ("stoa fp32 residual", "fp32")]:
                if a not in curves or b not in curves: continue
                d = distance(curves[a], curves[b])
                found.setdefault((a, b), []).append(d)
                rows.append(show({"model": name, "precision": "bf16", "seed": seed, "steps": args.bf16_steps, "pair": f"{a} - {b}",
                                  "last_loss": float(np.mean(curves[b][-10:, 0])), **d}))
            print(f"{name}, seed {seed}: {seconds:.0f} s", flush=True)
        total = lambda pair: {"max": max(d["max"] for d in found[pair]),
                              "rms": math.sqrt(sum(d["rms"]**2 for d in found[pair]) / len(found[pair]))}
        if args.no_compile: continue
        bar = total(("compiled", "eager"))
        for key in ("stoa", "stoa fp32 residual"):
            mine = total((key, "eager"))
            rows.append(show({"model": name, "precision": "bf16", "steps": args.bf16_steps, "seeds": args.seeds, "verdict": key,
                              "rms": mine["rms"], "bar_rms": bar["rms"], "max": mine["max"], "bar_max": bar["max"],
                              "passed": mine["rms"] <= bar["rms"]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="+", choices=["fp32", "bf16"])
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--fp32-steps", type=int, default=50)
    parser.add_argument("--bf16-steps", type=int, default=200)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; more than one crawl where others compute too")
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    rows = []
    if "fp32" in args.what: run_fp32(args, rows)
    if "bf16" in args.what: run_bf16(args, rows)
    if args.json:
        pathlib.Path(args.json).write_text(
            json.dumps({"torch": torch.__version__, "transformers": transformers.__version__, "threads": torch.get_num_threads(), "hidden": args.hidden,
                        "rows": rows}, indent=1) + "\n")
    if not all(row.get("passed", True) for row in rows): raise SystemExit(1)


if __name__ == "__main__":
    main()
