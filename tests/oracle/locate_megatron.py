#!/usr/bin/env python3
"""`stoa compare --locate` judges a step of Megatron-Core: the checkpoint tests/fixtures/megatron with the hooks of
tools/tensor_dump.py, and the same step of `stoa train --dump-tensors`, from the same weights and batch.

  python tests/oracle/locate_megatron.py [--json tests/oracle/results/locate_megatron.json] [--fixtures tests/fixtures/megatron]

Steps that are the same must agree within rounding; mistakes in Megatron's settings must be found where they first show.
Needs torch and megatron-core; processes over gloo, no GPU. --fixtures writes the data and two dumps for tests/e2e. Exit status 1
when a case fails.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import torch.multiprocessing as mp

import make_megatron_fixtures as megatron
import oracle

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from tensor_dump import MegatronDump  # noqa: E402

ROWS, MICRO, LENGTH = 4, 2, 16
SETTINGS = ["trainer.max_steps=1", "trainer.precision=fp32", "trainer.val_check_interval=0", f"model.encoder_seq_length={LENGTH}",
            f"model.micro_batch_size={MICRO}", f"model.global_batch_size={ROWS}", "model.hidden_dropout=0", "model.attention_dropout=0",
            "model.data.splits_string=100,0,0"]
# name, tensor ranks, sequence parallel, changes of the configuration, phase and tensor of the first difference
CASES = [("one rank", 1, False, {}, None), ("TP2, sequence parallel", 2, True, {}, None),
         ("rotary base 500000", 2, True, {"rotary_base": 500000}, ("forward", "layers.0.attention.q")),
         ("GELU for SiLU", 1, False, {"activation": torch.nn.functional.gelu}, ("forward", "layers.0.mlp.activated")),
         ("gradients of one microbatch only", 1, False, {"microbatches": 1}, ("gradients", "final_norm.weight"))]


def read_batch(dump):
    """Tokens and labels [rows, positions] that the other program's dump of step 1 holds."""
    out = {}
    for line in open(dump / "rank-00000.jsonl"):
        entry = json.loads(line)
        name = entry.get("tensor", "")
        if name in ("batch.tokens", "batch.labels"):
            whole = out.setdefault(name, torch.zeros(entry["global"][0], dtype=torch.long))
            begin, size = entry["begin"][0], entry["shape"][0]
            whole[begin:begin + size] = safetensors.torch.load_file(dump / entry["file"])[entry["key"]].reshape(-1).long()
    return [out[f"batch.{name}"].reshape(ROWS, LENGTH) for name in ("tokens", "labels")]


def copy_dump(dump, target, keeps):
    """The part of a dump of one step for whose entries `keeps` is true."""
    for index in sorted(dump.glob("*.jsonl")):
        header, *entries, end = [json.loads(line) for line in open(index)]
        entries = [entry for entry in entries if keeps(entry)]
        file = entries[0]["file"]
        tensors = safetensors.torch.load_file(dump / file)
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        safetensors.torch.save_file({entry["key"]: tensors[entry["key"]] for entry in entries}, target / file)
        lines = [header, *entries, {**end, "tensors": len(entries)}]
        (target / index.name).write_text("".join(json.dumps(line) + "\n" for line in lines))


def step(rank, ranks, sequence_parallel, changes, checkpoint, batch, folder):
    megatron.start(rank, ranks, ranks, 1)
    from megatron.core import dist_checkpointing, parallel_state
    built = megatron.model(ranks, 1, sequence_parallel=sequence_parallel, **{k: v for k, v in changes.items() if k != "microbatches"})
    built.load_state_dict(dist_checkpointing.load({"model": built.sharded_state_dict()}, str(checkpoint))["model"])
    dump = MegatronDump(folder, built, rows=ROWS, length=LENGTH, vocabulary=megatron.ARGS["vocab_size"])
    dump.weights()
    tokens, labels = batch
    positions = torch.arange(LENGTH)[None].expand(MICRO, LENGTH)
    mask = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool).triu(1)
    total = 0
    for m in range(changes.get("microbatches", ROWS // MICRO)):
        rows = slice(m * MICRO, (m + 1) * MICRO)
        logits = built(tokens[rows], positions, mask)[..., :megatron.ARGS["vocab_size"]]
        loss = torch.nn.functional.cross_entropy(logits.reshape(-1, logits.shape[-1]).float(), labels[rows].reshape(-1)) * MICRO / ROWS
        loss.backward()
        total += loss.item()
    if sequence_parallel:  # as Megatron's finalize_model_grads does
        for name, parameter in built.named_parameters():
            if getattr(parameter, "sequence_parallel", False):
                torch.distributed.all_reduce(parameter.grad, group=parallel_state.get_tensor_model_parallel_group())
    dump.gradients()
    dump.end_step(1, total)
    torch.distributed.barrier()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--json")
    parser.add_argument("--fixtures")
    args = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        rng = np.random.default_rng(3)
        oracle.write_corpus(folder / "tokens", [rng.integers(0, 40, size=int(n)) for n in rng.integers(20, 60, size=8)])
        oracle.call(args.stoa, "checkpoint", "import", megatron.OUTPUT, "--output", folder / "model")
        oracle.call(args.stoa, "train", folder / "model", f"model.data={folder / 'tokens'}", *SETTINGS, "--output", folder / "run",
                    "--dump-tensors", 1)
        batch = read_batch(folder / "run/dump")
        for case, ranks, sequence_parallel, changes, expected in CASES:
            dump = folder / case.replace(" ", "-").replace(",", "")
            mp.spawn(step, args=(ranks, sequence_parallel, changes, megatron.OUTPUT / "iter_0000007", batch, dump), nprocs=ranks)
            done = subprocess.run([args.stoa, "compare", dump, folder / "run", "--locate", "--json"], capture_output=True, text=True)
            assert done.returncode in (0, 3), done.stderr
            found = json.loads(done.stdout)
            first = found["first"] or {}
            passed = found["same"] if expected is None else (first.get("phase"), first.get("tensor")) == expected
            print(f"{case}: {'pass' if passed else 'FAIL'}", subprocess.run([args.stoa, "compare", dump, folder / "run", "--locate"],
                                                                           capture_output=True, text=True).stdout, sep="\n", flush=True)
            rows.append({"case": case, "passed": passed, **{key: found[key] for key in (
                "same", "tensors", "equal_tensors", "first", "nearest", "only_in_a", "only_in_b")}})
            if args.fixtures and ranks == 2:
                target = pathlib.Path(args.fixtures) / ("other_rope_dump" if changes else "dump")
                shutil.rmtree(target, ignore_errors=True)
                copy_dump(dump, target, (lambda entry: entry["phase"] == "forward" and entry["layer"] <= 0) if changes else lambda _: True)
        if args.fixtures:
            for end in ("bin", "idx"): shutil.copy(folder / f"tokens.{end}", pathlib.Path(args.fixtures) / f"tokens.{end}")
    if args.json:
        import megatron.core as core
        pathlib.Path(args.json).write_text(json.dumps({"torch": torch.__version__, "megatron-core": core.__version__, "cases": rows},
                                                      indent=1) + "\n")
    if not all(row["passed"] for row in rows): raise SystemExit(1)


if __name__ == "__main__":
    main()
