"""What the scripts of loss curves share: the random Markov chain, the optimizer and its schedule, a run of PyTorch, a run of Stoa,
and how far two curves are from each other. AdamW (0.9, 0.95, 1e-8), decay 0.1 on matrices, clipping at 1.0, cosine after warm-up with
the rate of the samples seen before a step."""
import argparse
import json
import math
import pathlib
import tempfile

import numpy as np
import torch
import transformers

import oracle

OPTIM = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.1, "betas": [0.9, 0.95], "eps": 1e-8,
         "sched": {"name": "CosineAnnealing", "warmup_steps": 10, "min_lr": 1e-4}}
CLIP, DATA_SEED = 1.0, 1234


def markov_documents(tokens, rng, states):
    """Documents of 40 to 599 states, at least `tokens` in all."""
    successors = rng.integers(0, states, (states, 16))
    weights = 1 / np.arange(1, 17)
    cumulative = np.cumsum(weights / weights.sum())
    documents, made = [], 0
    while made < tokens:
        length = int(rng.integers(40, 600))
        draws = np.searchsorted(cumulative, rng.random(length))
        document = np.empty(length, np.int64)
        state = int(rng.integers(states))
        for i in range(length):
            document[i] = state = successors[state, min(15, draws[i])]
        documents.append(document)
        made += length
    return documents


def rate(step, steps):
    """`step` counts the updates before this one."""
    sched, peak = OPTIM["sched"], OPTIM["lr"]
    warmup = sched["warmup_steps"]
    if step <= warmup: return peak * step / warmup
    return sched["min_lr"] + (math.cos(math.pi * (step - warmup) / (steps - warmup)) + 1) / 2 * (peak - sched["min_lr"])


def torch_curve(model, batches, steps, loss_of, autocast, compiled):
    """Loss and gradient norm [steps, 2]. loss_of(model, batch)."""
    model.train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.ndim > 1], "weight_decay": OPTIM["weight_decay"]},
                                   {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0}],
                                  lr=0.0, betas=tuple(OPTIM["betas"]), eps=OPTIM["eps"])
    run = torch.compile(loss_of) if compiled else loss_of
    curve = []
    for step, batch in enumerate(batches):
        for group in optimizer.param_groups: group["lr"] = rate(step, steps)
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            loss = run(model, batch)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, CLIP)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        curve.append((loss.item(), norm.item()))
    assert len(curve) == steps
    return np.array(curve)


def stoa_curve(stoa, folder, name, model, weights, steps, precision, residual, batch, **more):
    config, run = folder / f"{name}.yaml", folder / name
    oracle.write_config(config, {**model, "fp32_residual_connection": residual, "seed": DATA_SEED}, folder / "corpus",
                        {"max_steps": steps, "precision": precision, "val_check_interval": 0, "log_every_n_steps": 1,
                         "gradient_clip_val": CLIP},
                        OPTIM, batch=batch, weights=weights, **more)
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


def show(row):
    print(json.dumps(row), flush=True)
    return row


def runs(args, batch, steps, prepare):
    """For compare(): a run per seed. prepare(seed, folder) writes corpus, tokenizer and initial weights into the folder and returns
    torch_of(autocast, compiled), the model in the words of Stoa, and more keys of model.data or None."""
    for seed in range(1, args.seeds + 1):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            torch_of, ours, data = prepare(seed, folder)
            yield torch_of, lambda precision, residual: stoa_curve(args.stoa, folder, f"{precision}-{residual}", ours, folder / "weights",
                                                                   steps, precision, residual, batch, data=data)


def rms(rows):
    return math.sqrt(sum(row["rms"] ** 2 for row in rows) / len(rows))


def compare(what, runs, compile=True):
    """Rows of a model's curves. runs: per seed torch_of(autocast, compiled) and stoa_of(precision, fp32 residual), made when their turn comes.

    fp32   of the first seed; bar: losses of the first 50 steps within 1e-3 of PyTorch eager
    bf16   Stoa against PyTorch eager under autocast, and that against torch.compile of itself. Two runs that differ in rounding drift
           apart, so the bar is: Stoa is no further from eager than eager is from its compiled self, over all seeds (root mean square).
           Stoa runs with fp32_residual_connection false (its default) and true (as autocast does).
    """
    rows, far = [], {}

    def report(seed, pair, a, b, **more):
        rows.append(show({"seed": seed, "pair": pair, "steps": len(b), "first_loss": float(b[0, 0]), "last_loss": float(b[-1, 0]),
                          **distance(a, b), **more}))
        far.setdefault(pair, []).append(rows[-1])

    for seed, (torch_of, stoa_of) in enumerate(runs, 1):
        theirs = torch_of(False, False)
        if "fp32" in what and seed == 1:
            mine = stoa_of("fp32", False)
            early = float(np.max(np.abs(mine[:50, 0] - theirs[:50, 0])))
            report(seed, "stoa - eager, fp32", mine, theirs, max_of_50=early, passed=early <= 1e-3)
        if "bf16" not in what: break
        eager = torch_of(True, False)
        if compile: report(seed, "compiled - eager, bf16", torch_of(True, True), eager)
        report(seed, "eager, bf16 - fp32", eager, theirs)
        for residual in (False, True):
            mine = stoa_of("bf16", residual)
            name = "stoa fp32 residual" if residual else "stoa"
            report(seed, f"{name}, bf16 - fp32", mine, theirs)
            report(seed, f"{name} - eager, bf16", mine, eager)
    if "bf16" in what and compile:
        bar = rms(far["compiled - eager, bf16"])
        for name in ("stoa", "stoa fp32 residual"):
            mine = rms(far[f"{name} - eager, bf16"])
            rows.append(show({"verdict": f"{name} - eager, bf16", "seeds": len(far["compiled - eager, bf16"]), "rms": mine, "bar": bar,
                              "passed": mine <= bar}))
    return rows


def arguments(description):
    """A parser of what all these scripts are asked."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", nargs="+", default=["fp32", "bf16"], choices=["fp32", "bf16"])
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--seeds", type=int, default=1, help="how many; weights and data of each are others")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch; more than one crawl where others compute too")
    parser.add_argument("--json")
    return parser


def finish(rows, path):
    """Writes the rows; exit status 1 when a bar was missed."""
    if path:
        facts = {"torch": torch.__version__, "transformers": transformers.__version__}
        pathlib.Path(path).write_text(json.dumps({**facts, "rows": rows}, indent=1) + "\n")
    if not all(row.get("passed", True) for row in rows): raise SystemExit(1)
