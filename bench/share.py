#!/usr/bin/env python3
"""What share of the machine's matrix product rate training reaches: GPT-2 124M, bf16, batch 4 x 1024, in turns of a fraction of a step.

    python3 bench/share.py [--stoa build/release/src/stoa] [--rounds 15] [--instruction-set NAME] [--json FILE]

A step of `stoa bench train` runs in turns with forward products of 4096 x 4096 x 4096 on the same threads (`stoa bench gemm --stepwise`): the slow and
fast spells of a machine fall on both. Bars: 75 % without AMX, 60 % with; 95 % interval of the median by order statistics.
"""
import argparse
import json
import os

import common
import turns

PRODUCTS, SIZE = 30, 4096


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--instruction-set", help="of both programs (default: the best of this machine)")
    parser.add_argument("--recompute", default="selective", choices=["none", "selective"])
    parser.add_argument("--json")
    args = parser.parse_args()
    machine = ["--threads", args.threads, *(["--instruction-set", args.instruction_set] if args.instruction_set else [])]
    settings = ["gpt2-124m", "model.micro_batch_size=4", "model.global_batch_size=4", "model.encoder_seq_length=1024"]
    if args.recompute != "none": settings.append(f"model.activations_checkpoint_granularity={args.recompute}")
    model = json.loads(common.output(args.stoa, "bench", "train", *settings, *machine, "--warmup", 0, "--steps", 1, "--json"))
    step_tflop = model["model_tflops"] * model["step_seconds"]
    with turns.training(args.stoa, [*settings, *machine], args.rounds) as step, \
         turns.Program(args.stoa, "bench", "gemm", *machine, "--repeat", PRODUCTS) as product:
        steps, products = turns.alternate(step, product, args.rounds)
    product_tflop = PRODUCTS * 2e-12 * SIZE**3
    shares = [step_tflop / one / (product_tflop / other) for one, other in zip(steps, products)]
    median, interval = turns.median_and_interval(shares)
    bar = 0.60 if "amx" in model["machine"] else 0.75
    print(f"{100 * median:.0f} % of the product ({100 * interval[0]:.0f} to {100 * interval[1]:.0f}), bar {100 * bar:.0f}")
    common.save({**common.facts(), "benchmark": "share", "machine": model["machine"], "recompute": args.recompute, "rounds": args.rounds,
                 "step_tflop": step_tflop, "share": median, "interval": interval, "bar": bar, "undecided": interval[0] < bar < interval[1],
                 "step_seconds": steps, "product_tflops": [product_tflop / s for s in products]}, args.json)


if __name__ == "__main__":
    main()
