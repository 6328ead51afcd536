#!/usr/bin/env python3
"""Causal attention, forward and forward+backward, beside PyTorch's scaled_dot_product_attention, alternating in one run.

  python bench/attention.py --stoa build/release/src/stoa --peer torch_ops.py [--dtype bf16] [--threads 2] [--rounds 3]

`torch_ops.py attention` prints one JSON line per figure, as `stoa bench ops attention --json` does. Prints a JSON object
per shape with the medians of the rounds and the ratio; `--json FILE` keeps them. Needs: pip install torch
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys


def cpu():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.processor())


def figures(command, rounds_of):
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    peer = ""
    for line in map(json.loads, lines):
        peer = line.get("peer", line.get("instruction_set", ""))
        if "s" in line:
            rounds_of.setdefault((line["op"], line["b"], line["h"], line["s"], line["d"]), []).append(line["tflops"])
        elif line["op"] == "matrix product":
            rounds_of.setdefault("matrix product", []).append(line["tflops"])
    return peer


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", required=True)
    parser.add_argument("--peer", required=True, help="the script torch_ops.py")
    parser.add_argument("--python", default=sys.executable, help="a Python that has PyTorch")
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for the figures")
    args = parser.parse_args()

    common = ["--dtype", args.dtype, "--threads", str(args.threads), "--repeat", str(args.repeat)]
    ours, theirs, names = {}, {}, {}
    for _ in range(args.rounds):
        names["peer"] = figures([args.python, args.peer, "attention", *common], theirs)
        names["instruction_set"] = figures([args.stoa, "bench", "ops", "attention", "--json", *common], ours)
    result = {"cpu": cpu(), "threads": args.threads, "dtype": args.dtype, "rounds": args.rounds, **names,
              "matrix_product_tflops": statistics.median(ours["matrix product"]), "shapes": []}
    for key in theirs:
        mine, peer = statistics.median(ours[key]), statistics.median(theirs[key])
        op, b, h, s, d = key
        shape = {"op": op, "b": b, "h": h, "s": s, "d": d, "stoa_tflops": mine, "peer_tflops": peer,
                 "ratio": round(mine / peer, 2)}
        result["shapes"].append(shape)
        print(json.dumps(shape), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(result, f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
