#!/usr/bin/env python3
"""What recomputation and the `check` communicator cost, GPT-2 124M, in turns of a fraction of a step.

    python3 bench/overheads.py [--stoa build/release/src/stoa] [--rounds 9] [--only NAME…] [--instruction-set NAME] [--json FILE]

Seconds of a step beside those of the step without that ran meanwhile. Bars: selective recomputation at most 3 % where full costs 30 % or
more, `check` below 5 %; 95 % intervals of the median by order statistics.
"""
import argparse

import common
import turns

FULL = ["model.activations_checkpoint_granularity=full", "model.activations_checkpoint_method=uniform", "model.activations_checkpoint_num_layers=1"]
SELECTIVE = ["model.activations_checkpoint_granularity=selective"]
TP2 = ["model.tensor_model_parallel_size=2", "model.sequence_parallel=true"]
CHECK = ["--check-communication"]


def run(sequence, micro, batch, threads):
    return ["gpt2-124m", f"model.encoder_seq_length={sequence}", f"model.max_position_embeddings={sequence}", f"model.micro_batch_size={micro}",
            f"model.global_batch_size={batch}", "--threads", threads]


# name: (what both run, what the second has more)
CASES = {
    "selective, 1024 tokens": (run(1024, 2, 2, 2), SELECTIVE),
    "full, 1024 tokens": (run(1024, 2, 2, 2), FULL),
    "selective, 8192 tokens": (run(8192, 1, 1, 2), SELECTIVE),
    "full, 8192 tokens": (run(8192, 1, 1, 2), FULL),
    "check, dp2": ([*run(1024, 2, 4, 1), "--ranks", 2, "model.zero_stage=1"], CHECK),
    "check, tp2-sp": ([*run(1024, 2, 2, 1), "--ranks", 2, *TP2], CHECK),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--only", nargs="*", default=[*CASES], choices=[*CASES])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--instruction-set", help="of all programs (default: the best of this machine)")
    parser.add_argument("--json")
    args = parser.parse_args()
    table = []
    for name in args.only:
        both, more = CASES[name]
        if args.instruction_set: both = [*both, "--instruction-set", args.instruction_set]
        with turns.training(args.stoa, both, args.rounds) as base, turns.training(args.stoa, [*both, *more], args.rounds) as other:
            seconds = turns.alternate(base, other, args.rounds)
        costs = [more / less - 1 for less, more in zip(*seconds)]
        median, interval = turns.median_and_interval(costs)
        table.append({"what": name, "cost": median, "interval": interval, "range": [min(costs), max(costs)], "seconds": {"without": seconds[0], "with": seconds[1]}})
        print(f"{name:24} {median:+.1%} ({interval[0]:+.1%} to {interval[1]:+.1%})", flush=True)
    common.save({**common.facts(), "benchmark": "overheads", "rounds": args.rounds, "instruction_set": args.instruction_set, "table": table}, args.json)


if __name__ == "__main__":
    main()
