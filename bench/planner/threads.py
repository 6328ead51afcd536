#!/usr/bin/env python3
"""Twenty layouts on threads of this machine, measured beside what the planner says of them.
bench/planner/threads.py [STOA] [FOLDER] [INSTRUCTION_SET]: calibrates first where FOLDER has no cluster.yaml. The models are none of those that
the calibration trains."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

STOA = sys.argv[1] if len(sys.argv) > 1 else "build/release/src/stoa"
FOLDER = pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp())
MACHINE = ["--instruction-set", sys.argv[3]] if len(sys.argv) > 3 else []
CORES = len(os.sched_getaffinity(0))
PASSES = 3  # of all layouts, the best counts: what else the machine does comes and goes


def stoa(*arguments):
    return subprocess.run([STOA, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def keys(layers, hidden, sequence, micro, batch, **layout):
    sizes = {"num_layers": layers, "hidden_size": hidden, "num_attention_heads": hidden // 64, "encoder_seq_length": sequence, "micro_batch_size": micro,
             "global_batch_size": batch, "vocab_size": 6144, "hidden_dropout": 0, "attention_dropout": 0}
    return ["trainer.val_check_interval=0", *(f"model.{key}={value}" for key, value in {**sizes, **layout}.items())]


TP, PP, VPP, ZERO = "tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size", "zero_stage"
FULL = {"activations_checkpoint_granularity": "full", "activations_checkpoint_method": "uniform", "activations_checkpoint_num_layers": 1}
LAYOUTS = [(1, keys(3, 640, 256, 2, 4)), (1, keys(6, 320, 512, 2, 4)), (1, keys(5, 448, 256, 4, 8)), (1, keys(3, 640, 512, 1, 4)), (1, keys(6, 384, 256, 2, 8, **FULL)),
           (2, keys(6, 384, 256, 2, 16)), (2, keys(6, 384, 256, 2, 16, **{ZERO: 1})), (2, keys(4, 448, 256, 2, 8, **{ZERO: 3})), (2, keys(4, 640, 256, 2, 8, **{TP: 2})),
           (2, keys(4, 640, 256, 2, 8, **{TP: 2}, sequence_parallel="true")), (2, keys(4, 448, 512, 2, 8, **{PP: 2})), (2, keys(8, 384, 256, 2, 16, **{PP: 2, VPP: 2})),
           (2, keys(6, 384, 256, 2, 16, **{PP: 2}, pipeline_schedule="zb-h1")), (2, keys(8, 384, 256, 2, 16, **{PP: 2}, pipeline_schedule="zb-v")), (2, keys(6, 384, 256, 4, 16, **FULL)),
           (4, keys(6, 384, 256, 2, 16)), (4, keys(4, 448, 256, 2, 8, **{TP: 2})), (4, keys(8, 384, 256, 2, 16, **{PP: 2})), (4, keys(8, 384, 256, 2, 16, **{PP: 4})), (4, keys(4, 640, 256, 2, 8, **{TP: 2, PP: 2}))]

if not (FOLDER / "cluster.yaml").exists(): stoa("bench", "calibrate", "--output", FOLDER, *MACHINE)
measured = [None] * len(LAYOUTS)
for _ in range(PASSES):
    for i, (ranks, layout) in enumerate(LAYOUTS):
        run = json.loads(stoa("bench", "train", "gpt2-124m", *layout, "--ranks", ranks, "--steps", 3, "--warmup", 1, *MACHINE, "--json"))
        if not measured[i] or run["step_seconds"] < measured[i]["step_seconds"]: measured[i] = run
print("| layout | bytes of the first rank, planned - run | step, s | predicted, s | error | bar |\n|---|--:|--:|--:|--:|--:|")
late = 0
for (ranks, layout), run in zip(LAYOUTS, measured):
    plan = json.loads(stoa("plan", "predict", "gpt2-124m", *layout, "--ranks", ranks, "--cluster", FOLDER / "cluster.yaml", "--calibration", FOLDER / "calibration.yaml", "--json"))
    memory = json.loads(stoa("plan", "memory", "gpt2-124m", *layout, "--ranks", ranks, "--threads", max(1, CORES // ranks), *MACHINE, "--json"))
    first = next(row["total_bytes"] for row in memory["table"] if row["rank"] == 0)
    error, bar = plan["step_seconds"] / run["step_seconds"] - 1, 0.10 if ranks <= min(2, CORES) else 0.20
    late += abs(error) > bar
    shape = dict(key.removeprefix("model.").split("=") for key in layout)
    print(f"| {shape['num_layers']} x {shape['hidden_size']}, {run['layout']} | {first - run['planned_memory_bytes']} | {run['step_seconds']:.4f} | "
          f"{plan['step_seconds']:.4f} | {100 * error:+.1f} % | {100 * bar:.0f} % |")
print(f"\n{len(LAYOUTS) - late} of {len(LAYOUTS)} within their bar.")
