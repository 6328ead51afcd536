#!/usr/bin/env python3
"""Collectives of Stoa's ranks (threads, and processes over MPI) beside Open MPI's own, alternating in one run.

    python3 bench/collectives.py [--stoa build/release/src/stoa] [--ranks 2] [--rounds 3] [--json FILE]

The bar: `threads` at or above Open MPI's shared-memory collectives, 1 KiB to 64 MiB. Needs: mpicc, mpirun.
"""
import argparse
import os
import statistics
import tempfile

import common


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.2, help="per figure and round")
    parser.add_argument("--smallest", type=int, default=1 << 10)
    parser.add_argument("--largest", type=int, default=64 << 20)
    parser.add_argument("--json")
    args = parser.parse_args()
    os.environ.update(common.OPEN_MPI)
    sizes = ["--smallest", args.smallest, "--largest", args.largest, "--seconds", args.seconds, "--json"]
    launch = ["mpirun", "--oversubscribe", "-n", args.ranks]
    rows = []
    with tempfile.TemporaryDirectory() as work:
        peer = work + "/collectives"
        common.output("mpicc", "-O2", common.ROOT / "bench/mpi_collectives.c", "-o", peer)
        for _ in range(args.rounds):
            rows += common.json_lines(args.stoa, "bench", "collectives", "--ranks", args.ranks, *sizes)
            rows += common.json_lines(*launch, peer, args.smallest, args.largest, args.seconds)
            rows += common.json_lines(*launch, args.stoa, "bench", "collectives", *sizes)
    figures = {}
    for row in rows:
        figures.setdefault((row["operation"], row["bytes"]), {}).setdefault(row["communicator"], []).append(row["microseconds"])
    table = []
    for (operation, size), times in figures.items():
        median = {kind: statistics.median(values) for kind, values in times.items()}
        table.append({"operation": operation, "bytes": size, **median, "threads_ratio": median["Open MPI"] / median["threads"],
                      "mpi_ratio": median["Open MPI"] / median["mpi"]})
    common.save({**common.facts(), "benchmark": "collectives", "ranks": args.ranks, "rounds": args.rounds, "bar": 1.0,
                 "microseconds": table}, args.json)


if __name__ == "__main__":
    main()
