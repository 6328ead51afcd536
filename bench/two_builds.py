#!/usr/bin/env python3
"""Speed of two builds of Stoa, one beside the other: a training step in turns of a fraction of a second, decoding and a tokenizer in alternation.

    python3 bench/two_builds.py OLD/stoa NEW/stoa [--rounds 15] [--tokenizer DIRECTORY TEXT] [--json FILE]

Ratios of NEW's time to OLD's: 1.00 is the same, less is faster. Medians with their 95 % intervals by order statistics. Bar: within 2 %.
GPT-2 124M, 1,024 tokens, two threads.
"""
import argparse
import json

import common
import turns

TRAINING = ["gpt2-124m", "model.micro_batch_size=1", "model.global_batch_size=1", "--threads", 2]
DECODING = ["bench", "decode", "gpt2-124m", "--prompt", 32, "--tokens", 64, "--threads", 2, "--rounds", 3, "--json"]


def training(old, new, rounds):
    with turns.training(old, TRAINING, rounds) as base, turns.training(new, TRAINING, rounds) as other:
        return [after / before for before, after in zip(*turns.alternate(base, other, rounds))]


def alternating(old, new, rounds, rate):
    """Ratios of times by the rates that a program reports; each of a pair goes first in turn."""
    ratios = []
    for done in range(rounds):
        rates = {stoa: rate(stoa) for stoa in ((old, new) if done % 2 else (new, old))}
        ratios.append(rates[old] / rates[new])
    return ratios


def decode_rate(stoa):
    return max(json.loads(common.output(stoa, *DECODING))["rounds"]["tokens_per_second"])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old"), parser.add_argument("new")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--tokenizer", nargs=2, metavar=("DIRECTORY", "TEXT"))
    parser.add_argument("--json")
    args = parser.parse_args()
    cases = {"training step": lambda: training(args.old, args.new, args.rounds),
             "decoding": lambda: alternating(args.old, args.new, args.rounds, decode_rate)}
    if args.tokenizer:
        encode = lambda stoa: json.loads(common.output(stoa, "tokenizer", "bench", "--tokenizer", *args.tokenizer, "--repeat", 5))["mb_per_s"]
        cases["tokenizer"] = lambda: alternating(args.old, args.new, args.rounds, encode)
    table = []
    for name, measure in cases.items():
        ratios = measure()
        median, interval = turns.median_and_interval(ratios)
        table.append({"what": name, "ratio": median, "interval": interval, "range": [min(ratios), max(ratios)]})
        print(f"{name:14} {median:.3f} ({interval[0]:.3f} to {interval[1]:.3f})", flush=True)
    common.save({**common.facts(), "benchmark": "two_builds", "rounds": args.rounds, "table": table}, args.json)


if __name__ == "__main__":
    main()
