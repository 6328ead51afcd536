#!/usr/bin/env python3
"""Two ranks of one thread each beside one rank of two threads, GPT-2 124M, in turns of a fraction of a step.

    python3 bench/ranks.py [--stoa build/release/src/stoa] [--rounds 9] [--layouts dp2-zero1 tp2-sp cp2 zero3 mpi] [--instruction-set NAME] [--json FILE]

Every layout trains the same number of tokens per step (at least 16,384 unless --batch says less), and a rank sees as many tokens in a pass as
the one rank does: where a microbatch is split over both, it has twice the rows. A step of the layout runs in turns with one of one rank; the median of the ratios of the rounds counts. Where the bar lies within the 95 % interval of the median (order
statistics) the figure is undecided. `mpi` is dp2-zero1 under mpirun beside dp2-zero1 as threads.
"""
import argparse

import common
import turns

SPLIT = "model.micro_batch_size=4"
LAYOUTS = {
    "dp2-zero1": (0.95, ["model.zero_stage=1"]),
    "tp2-sp": (0.90, ["model.tensor_model_parallel_size=2", "model.sequence_parallel=true", SPLIT]),
    "cp2": (0.90, ["model.context_parallel_size=2", "model.zero_stage=1", SPLIT]),
    "zero3": (0.85, ["model.zero_stage=3"]),
    "mpi": (0.95, ["model.zero_stage=1"]),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--layouts", nargs="*", default=[*LAYOUTS], choices=[*LAYOUTS])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--config", default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=16, help="rows of 1024 tokens per step")
    parser.add_argument("--instruction-set", help="of all programs (default: the best of this machine)")
    parser.add_argument("--json")
    args = parser.parse_args()
    settings = [args.config, "model.micro_batch_size=2", f"model.global_batch_size={args.batch}", "model.encoder_seq_length=1024"]
    if args.instruction_set: settings += ["--instruction-set", args.instruction_set]

    def ranks(more):
        return turns.training(args.stoa, [*settings, *more, "--threads", 1, "--ranks", 2], args.rounds)

    table = []
    for name in args.layouts:
        bar, keys = LAYOUTS[name]
        if name == "mpi":
            base, other = ranks(keys), turns.training(args.stoa, [*settings, *keys, "--threads", 1], args.rounds, ["mpirun", "--oversubscribe", "-n", 2])
        else:
            base, other = turns.training(args.stoa, [*settings, "--threads", 2], args.rounds), ranks(keys)
        with base, other:
            seconds = turns.alternate(base, other, args.rounds)
        ratios = [one / two for one, two in zip(*seconds)]
        median, interval = turns.median_and_interval(ratios)
        table.append({"layout": name, "bar": bar, "ratio": median, "interval": interval, "range": [min(ratios), max(ratios)],
                      "undecided": interval[0] < bar < interval[1], "seconds": {"base": seconds[0], name: seconds[1]}})
        print(f"{name:10} {median:.2f} of {'threads' if name == 'mpi' else 'one rank'} ({interval[0]:.2f} to {interval[1]:.2f}), bar {bar}", flush=True)
    common.save({**common.facts(), "benchmark": "ranks", "rounds": args.rounds, "batch": args.batch, "instruction_set": args.instruction_set, "table": table}, args.json)


if __name__ == "__main__":
    main()
