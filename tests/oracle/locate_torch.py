#!/usr/bin/env python3
"""`stoa compare --locate` judges a step of PyTorch: a small GPT-2 of transformers with the hooks of tools/tensor_dump.py, and the same step of
`stoa train --dump-tensors`, from the same weights and batch.

  python tests/oracle/locate_torch.py [--json tests/oracle/results/locate_torch.json]

Three cases: fp32 and bf16 autocast must agree within rounding; PyTorch with another activation in layer 2 must be located exactly there.
Needs: pip install torch transformers. Exit status 1 when a case fails.
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import torch
import torch.nn.functional as F
import transformers

import curves
import loss_curves
import oracle
from tensor_dump import Dump, gpt2_parameters, watch_gpt2

CASES = [("fp32", "fp32", False), ("bf16 autocast", "bf16", False), ("another activation in layer 2", "fp32", True)]


def torch_step(folder, weights, documents, precision, spoilt):
    model = transformers.AutoModelForCausalLM.from_pretrained(weights, dtype=torch.float32).train()
    if spoilt: model.transformer.h[2].mlp.act = torch.nn.SiLU()
    dump = Dump(folder, len(model.transformer.h), loss_curves.LENGTH, precision)
    watch_gpt2(dump, model)
    for name, layer, weight in gpt2_parameters(model, lambda p: p): dump.add("weights", layer, name, weight)
    tokens, labels = next(loss_curves.batches(documents, 1))
    dump.add("forward", -1, "batch.tokens", tokens.reshape(-1).int(), 0)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
        logits = model(input_ids=tokens, use_cache=False).logits
    loss = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), labels.reshape(-1))
    loss.backward()
    for name, layer, gradient in gpt2_parameters(model, lambda p: p.grad): dump.add("gradients", layer, name, gradient)
    dump.end_step(1, loss.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--json")
    args = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        ours, documents = loss_curves.prepare("gpt2", args.hidden, 1, folder, 1)
        for case, precision, spoilt in CASES:
            name = case.replace(" ", "-")
            torch_step(folder / f"torch-{name}", folder / "weights", documents, precision, spoilt)
            config, run = folder / f"{name}.yaml", folder / f"stoa-{name}"
            oracle.write_config(config, {**ours, "seed": curves.DATA_SEED}, folder / "corpus",
                                {"max_steps": 1, "precision": precision, "gradient_clip_val": curves.CLIP, "val_check_interval": 0},
                                {**curves.OPTIM, "sched": None}, batch=loss_curves.BATCH, weights=folder / "weights")
            oracle.call(args.stoa, "train", config, "--output", run, "--dump-tensors", 1)
            command = [args.stoa, "compare", folder / f"torch-{name}", run, "--locate"]
            print(f"== {case}\n" + subprocess.run(list(map(str, command)), capture_output=True, text=True).stdout, flush=True)
            done = subprocess.run(list(map(str, [*command, "--json"])), capture_output=True, text=True)
            assert done.returncode in (0, 3), done.stderr
            found = json.loads(done.stdout)
            first = found["first"] or {}
            passed = first.get("tensor") == "layers.2.mlp.activated" and first["phase"] == "forward" if spoilt else found["same"]
            rows.append({"case": case, "passed": passed, **{key: found[key] for key in ("same", "tensors", "equal_tensors", "first", "nearest",
                                                                                        "only_in_a", "only_in_b")}})
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                                                       "hidden": args.hidden, "cases": rows}, indent=1) + "\n")
    if not all(row["passed"] for row in rows): raise SystemExit(1)


if __name__ == "__main__":
    main()
