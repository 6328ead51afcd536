#!/usr/bin/env python3
"""Experts over ranks in the memory of a factor of an even load, beside memory for whatever the router decides.

    python3 bench/experts.py [--stoa build/release/src/stoa] [--rounds 9] [--only NAME…] [--json FILE]

Eight experts, two per token, nothing dropped, four ranks of one thread with two experts each. Bytes: those that `stoa plan memory` counts, declared for
model.moe_buffer_factor 1.5 and for any load, beside those of an even load alone; bar: at most 1.6 x with the default factor. Seconds: a step with the
default factor beside one with memory for everything, in turns of a fraction of a step, with the router's first choices (nearly even) and with all
tokens on the first rank's experts (weights of zero: of equal scores the lower ones win), where three quarters of its rows come in parts.
"""
import argparse
import json

import common
import turns

MODEL = ["gpt2-124m", "model.num_layers=4", "model.hidden_size=256", "model.ffn_hidden_size=1024", "model.num_attention_heads=4", "model.bias=none",
         "model.vocab_size=4096", "model.encoder_seq_length=512", "model.max_position_embeddings=512", "model.micro_batch_size=2",
         "model.global_batch_size=8", "model.num_moe_experts=8", "model.moe_router_topk=2"]
RANKS = ["model.expert_model_parallel_size=4", "--ranks", 4]
EVERYTHING = ["model.moe_buffer_factor=1000"]
CASES = {"router's first choices": [], "all on the first rank": ["model.init_method_std=0"]}
LOADED = ("saved activations", "scratch")  # the categories that a load of experts changes


def memory(stoa):
    def of(*more):
        return json.loads(common.output(stoa, "plan", "memory", *MODEL, *RANKS, *more, "--json"))
    plans = {"even": of("model.moe_buffer_factor=1"), "default": of(), "any load": of(*EVERYTHING)}
    loaded = {name: sum(plan["bytes"][c] for c in LOADED) for name, plan in plans.items()}
    return {name: {"total": plan["total_bytes"], "activations_and_scratch": loaded[name], "total_ratio": plan["total_bytes"] / plans["even"]["total_bytes"],
                   "ratio": loaded[name] / loaded["even"]} for name, plan in plans.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--only", nargs="*", default=[*CASES], choices=[*CASES])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json")
    args = parser.parse_args()
    bytes_of = memory(args.stoa)
    for name, b in bytes_of.items():
        print(f"{name:10} {b['total']:>12} bytes ({b['total_ratio']:.2f} x), activations and scratch {b['activations_and_scratch']:>12} ({b['ratio']:.2f} x)", flush=True)
    table = []
    for name in args.only:
        both = [*MODEL, *RANKS, "--threads", 1, *CASES[name]]
        with turns.training(args.stoa, [*both, *EVERYTHING], args.rounds) as base, turns.training(args.stoa, both, args.rounds) as other:
            seconds = turns.alternate(base, other, args.rounds)
        costs = [more / less - 1 for less, more in zip(*seconds)]
        median, interval = turns.median_and_interval(costs)
        table.append({"what": name, "cost": median, "interval": interval, "range": [min(costs), max(costs)], "seconds": {"everything": seconds[0], "default": seconds[1]}})
        print(f"{name:24} {median:+.1%} ({interval[0]:+.1%} to {interval[1]:+.1%})", flush=True)
    common.save({**common.facts(), "benchmark": "experts", "rounds": args.rounds, "memory": bytes_of, "table": table}, args.json)


if __name__ == "__main__":
    main()
