#!/usr/bin/env python3
"""BERT-base masked language model training on a CPU beside PyTorch + transformers, eager and torch.compile, alternating in one run.

  python bench/bert.py [--rounds 2] [--json bench/results/bert.json]

Batch 16 x 512 tokens, bf16, as many threads as cores; 15 % of the tokens are to be predicted. Twice: rows of the full length, and rows
that end after an eighth to all of it, which the peer pads to the longest and masks, as its users do. Rates are rows per second: work
that is not there is not counted. Needs: pip install torch transformers; g++ for torch.compile.
"""
import argparse
import json
import os
import pathlib
import statistics

import common


def peer(args):
    import torch
    import transformers
    torch.manual_seed(1)
    config = transformers.BertConfig(vocab_size=30522, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    model = transformers.BertForMaskedLM(config)
    lengths = [args.sequence] * args.rows
    if args.natural:
        lengths = torch.randint(args.sequence // 8, args.sequence + 1, (args.rows,)).tolist()
    longest = max(lengths)
    ids = torch.randint(0, 30522, (args.rows, longest))
    mask = torch.tensor([[int(i < n) for i in range(longest)] for n in lengths])
    labels = torch.where((torch.rand(args.rows, longest) < 0.15) & (mask == 1), ids, -100)
    inputs = {"input_ids": ids, "labels": labels}
    if args.natural:
        inputs["attention_mask"] = mask
    seconds = common.train_in_torch(model, inputs, args)
    print(json.dumps({"step_seconds": statistics.median(seconds), "mean_length": sum(lengths) / args.rows,
                      "torch": torch.__version__, "transformers": transformers.__version__}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--python", default="python3", help="a Python that has PyTorch and transformers")
    parser.add_argument("--modes", nargs="*", default=["eager", "compile"], choices=["eager", "compile"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--rows", type=int, default=16)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--json")
    parser.add_argument("--mode", help=argparse.SUPPRESS)
    parser.add_argument("--natural", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.mode:
        return peer(args)
    count = ["--steps", args.steps, "--warmup", args.warmup, "--threads", args.threads]
    result = {"rows": args.rows, "sequence": args.sequence, "threads": args.threads}
    for name, ours_more, theirs_more in (("full", [], []), ("natural", ["--natural-lengths"], ["--natural"])):
        ours, theirs = [], {mode: [] for mode in args.modes}
        for _ in range(args.rounds):
            ours += common.json_lines(args.stoa, "bench", "train", "bert-110m", f"model.micro_batch_size={args.rows}",
                                      f"model.global_batch_size={args.rows}", f"model.encoder_seq_length={args.sequence}",
                                      "model.hidden_dropout=0", "model.attention_dropout=0", "model.embedding_dropout=0", "--json",
                                      *count, *ours_more)
            for mode in args.modes:
                theirs[mode] += common.json_lines(args.python, pathlib.Path(__file__), "--mode", mode, "--rows", args.rows,
                                                  "--sequence", args.sequence, *count, *theirs_more)
        step = statistics.median(row["step_seconds"] for row in ours)
        result[name] = {"stoa_step_seconds": step, "stoa_rows_per_second": args.rows / step}
        for mode in args.modes:
            peer_step = statistics.median(row["step_seconds"] for row in theirs[mode])
            result[name][mode] = {"step_seconds": peer_step, "times_as_fast": peer_step / step}
    print(json.dumps(result, indent=2))
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(result, indent=2) + "\n")


main()
