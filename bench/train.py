#!/usr/bin/env python3
"""GPT-2 124M training on a CPU beside PyTorch + transformers, eager and torch.compile, alternating in one run.

  python bench/train.py [--peer ../shared/peers/torch_train.py] [--rounds 2] [--json bench/results/train.json]

Batch 4 x 1024 tokens, bf16, as many threads as cores. Per round: `stoa bench train gpt2-124m`, the peer eager, the peer compiled, each a
process of its own, so that its peak memory is its own. Stoa computes norms and activation functions again in the backward pass
(`--recompute`). Medians over the rounds of the medians over the steps. The machine's bf16 GEMM rate is the higher of Stoa's own and of
torch_ops.py (beside the peer script), for the same shapes. `--peer` prints one JSON line with tokens_per_s, step_s, model_tflops,
peak_rss_gb. Needs: pip install torch transformers; g++ for torch.compile.
"""
import argparse
import os
import pathlib
import statistics

import common


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--peer", default=common.DEFAULT_PEERS + "/torch_train.py")
    parser.add_argument("--python", default="python3", help="a Python that has PyTorch and transformers")
    parser.add_argument("--modes", nargs="*", default=["eager", "compile"], choices=["eager", "compile"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--own-micro-batch", type=int, help="of Stoa, which divides the same batch (default: --micro-batch)")
    parser.add_argument("--recompute", default="selective", choices=["none", "selective"], help="of Stoa")
    parser.add_argument("--json")
    args = parser.parse_args()

    count = ["--steps", args.steps, "--warmup", args.warmup, "--threads", args.threads]
    ours, theirs, own_gemm, peer_gemm = [], {mode: [] for mode in args.modes}, [], []
    for _ in range(args.rounds):
        # `stoa bench train` takes the rate of one product in a moment; this is the figure of the four large shapes.
        own_gemm += [common.json_lines(args.stoa, "bench", "gemm", "--threads", args.threads, "--json")[0]["gemm_tflops"]]
        ours += common.json_lines(args.stoa, "bench", "train", "gpt2-124m", f"model.micro_batch_size={args.own_micro_batch or args.micro_batch}",
                                  f"model.global_batch_size={args.micro_batch}", f"model.encoder_seq_length={args.sequence}",
                                  f"model.activations_checkpoint_granularity={args.recompute}", "--json", *count)
        for mode in args.modes:
            theirs[mode] += common.json_lines(args.python, args.peer, "--preset", "gpt2", "--micro-batch", args.micro_batch, "--seq",
                                              args.sequence, "--dtype", "bf16", "--mode", mode, *count)
    if args.modes:
        peer_gemm = [line["tflops"] for line in common.json_lines(args.python, pathlib.Path(args.peer).with_name("torch_ops.py"), "gemm",
                                                                 "--threads", args.threads, "--repeat", 5)]

    median = lambda rows, key: statistics.median(row[key] for row in rows)
    gemm = max(own_gemm + peer_gemm)
    stoa = {key: median(ours, key) for key in ("tokens_per_second", "step_seconds", "model_tflops", "peak_memory_bytes", "arena_peak_bytes",
                                               "planned_memory_bytes")}
    stoa["gemm_tflops"] = max(own_gemm)
    result = {**common.facts(), "benchmark": "train", "model": "gpt2-124m", "micro_batch": args.micro_batch, "own_micro_batch": args.own_micro_batch or args.micro_batch, "sequence": args.sequence,
              "dtype": "bf16", "threads": args.threads, "rounds": args.rounds, "recompute": args.recompute,
              "machine": ours[0]["machine"], "stoa": stoa, "peer_gemm_tflops": max(peer_gemm, default=None),
              "share_of_gemm": stoa["model_tflops"] / gemm, "gemm_ceiling_tflops": gemm, "share_of_own_gemm": stoa["model_tflops"] / stoa["gemm_tflops"],
              "arena_equals_plan": all(row["arena_peak_bytes"] == row["planned_memory_bytes"] for row in ours), "peers": {},
              "runs": {"stoa": ours, "stoa_gemm": own_gemm, **theirs}}
    for mode, rows in theirs.items():
        peer = {"name": rows[0]["peer"], "tokens_per_second": median(rows, "tokens_per_s"), "model_tflops": median(rows, "model_tflops"),
                "peak_memory_bytes": median(rows, "peak_rss_gb") * 2**30}
        peer["ratio"] = stoa["tokens_per_second"] / peer["tokens_per_second"]
        peer["memory_ratio"] = stoa["peak_memory_bytes"] / peer["peak_memory_bytes"]
        peer["bar"] = {"eager": 2.3, "compile": 1.5}[mode]
        result["peers"][mode] = peer
    common.save(result, args.json)


if __name__ == "__main__":
    main()
