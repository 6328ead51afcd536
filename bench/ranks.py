#!/usr/bin/env python3
"""Two ranks of one thread each beside one rank of two threads, GPT-2 124M, alternating in one run.

    python3 bench/ranks.py [--stoa build/release/src/stoa] [--rounds 7] [--layouts dp2-zero1 tp2-sp cp2 zero3 mpi] [--json FILE]

Every layout trains the same number of tokens per step (at least 16,384 unless --batch says less). Per round: one rank, then each layout,
each a process of its own; the ratio of a round is that of neighbours in time, the median over the rounds counts, and where the
spread of the ratios is above their distance from the bar the figure is undecided. `mpi` is dp2-zero1 under mpirun beside threads.
"""
import argparse
import os
import statistics

import common

LAYOUTS = {
    "dp2-zero1": (0.95, ["model.zero_stage=1"]),
    "tp2-sp": (0.90, ["model.tensor_model_parallel_size=2", "model.sequence_parallel=true"]),
    "cp2": (0.90, ["model.context_parallel_size=2"]),
    "zero3": (0.85, ["model.zero_stage=3"]),
}
OPEN_MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--layouts", nargs="*", default=[*LAYOUTS, "mpi"], choices=[*LAYOUTS, "mpi"])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--config", default="gpt2-124m")
    parser.add_argument("--batch", type=int, default=16, help="rows of 1024 tokens per step")
    parser.add_argument("--json")
    args = parser.parse_args()
    os.environ.update(OPEN_MPI)
    settings = [args.config, "model.micro_batch_size=2", f"model.global_batch_size={args.batch}", "model.encoder_seq_length=1024", "--steps",
                args.steps, "--warmup", 1, "--json"]

    def speed(more, ranks=2, launch=()):
        return common.json_lines(*launch, args.stoa, "bench", "train", *settings, *more, "--threads", 2 // ranks,
                                 *([] if launch else ["--ranks", ranks]))[0]["tokens_per_second"]

    ratios = {name: [] for name in args.layouts}
    speeds = {"one rank": [], **{name: [] for name in args.layouts}}
    for _ in range(args.rounds):
        speeds["one rank"].append(speed([], ranks=1))
        for name in args.layouts:
            if name == "mpi":
                threads = speed(LAYOUTS["dp2-zero1"][1])
                speeds[name].append(speed(LAYOUTS["dp2-zero1"][1], launch=["mpirun", "--oversubscribe", "-n", 2]))
                ratios[name].append(speeds[name][-1] / threads)
            else:
                speeds[name].append(speed(LAYOUTS[name][1]))
                ratios[name].append(speeds[name][-1] / speeds["one rank"][-1])
    table = []
    for name, values in ratios.items():
        bar, median = (0.95 if name == "mpi" else LAYOUTS[name][0]), statistics.median(values)
        undecided = min(values) < bar < max(values)
        table.append({"layout": name, "bar": bar, "ratio": median, "range": [min(values), max(values)], "undecided": undecided})
    common.save({**common.facts(), "benchmark": "ranks", "rounds": args.rounds, "batch": args.batch, "table": table, "tokens_per_second": speeds},
                args.json)


if __name__ == "__main__":
    main()
