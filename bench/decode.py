#!/usr/bin/env python3
"""Decoding with GPT-2 124M in bf16, batch 1, beside transformers' generate and the bound that memory sets, alternating in one run.

  python bench/decode.py [--peer ../shared/peers/torch_ops.py] [--rounds 3] [--json bench/results/decode.json]

Beside the bound: `stoa bench decode`, which reads memory after every answer; the bound is that bandwidth / (bytes of weights and of keys and
values that a token reads). Beside transformers: `stoa generate --greedy` on a model with random weights (saved by one step of `stoa train`). 32
tokens of prompt, 64 of answer. `--peer` with argument "decode" prints one JSON line with tokens_per_s. Needs: pip install torch transformers
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile

import common
import turns

LAYERS, HIDDEN, POSITIONS, PROMPT, ANSWER = 12, 768, 1024, 32, 64


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--peer", default=common.DEFAULT_PEERS + "/torch_ops.py", help="empty: without peer")
    parser.add_argument("--python", default="python3", help="a Python that has PyTorch and transformers")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()

    ours, theirs, rates, reads = [], [], [], []
    weights = 2 * (50257 * HIDDEN + LAYERS * 12 * HIDDEN**2)  # the token table is read whole by the head, the positions are not
    token_bytes = weights + 2 * 2 * LAYERS * HIDDEN * (PROMPT + ANSWER / 2)  # and keys and values
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = common.prepare_workplace(args.stoa, folder)
        common.output(args.stoa, "train", "gpt2-124m", *data, "model.micro_batch_size=1", "model.global_batch_size=1",
                      "model.encoder_seq_length=64", f"model.max_position_embeddings={POSITIONS}", "trainer.max_steps=1",
                      "trainer.val_check_interval=0", "model.optim.sched.warmup_steps=0", "--output", folder / "run")
        prompt = "ab" * PROMPT  # each pair is one token
        for _ in range(args.rounds):
            rounds = json.loads(common.output(args.stoa, "bench", "decode", "gpt2-124m", "--prompt", PROMPT, "--tokens", ANSWER, "--threads", args.threads,
                                              "--rounds", 15, "--json"))["rounds"]
            rates += rounds["tokens_per_second"]
            reads += rounds["read_gigabytes_per_second"]
            answer = json.loads(common.output(args.stoa, "generate", folder / "run", "--prompt", prompt, "--greedy", "--max-tokens",
                                              ANSWER, "--dtype", "bf16", "--threads", args.threads, "--json"))
            assert len(answer["prompt_ids"]) == PROMPT and len(answer["ids"]) == ANSWER, (len(answer["prompt_ids"]), answer["end"])
            # The first token of the answer costs no pass of its own: the prompt's gives it.
            ours.append(answer["tokens_per_second"] * (ANSWER - 1) / ANSWER)
            if args.peer:
                theirs += [row["tokens_per_s"] for row in common.json_lines(args.python, args.peer, "decode", "--threads", args.threads,
                                                                           "--repeat", 3)]
    shares = [rate * token_bytes / (read * 1e9) for rate, read in zip(rates, reads)]
    share, interval = turns.median_and_interval(shares)
    result = {**common.facts(), "benchmark": "decode", "model": "gpt2-124m random", "dtype": "bf16", "threads": args.threads,
              "tokens_per_second": statistics.median(rates), "bytes_per_token": token_bytes,
              "bound_tokens_per_second": statistics.median(reads) * 1e9 / token_bytes, "share_of_bound": share, "interval": interval, "bar_share": 0.9,
              "undecided": interval[0] < 0.9 < interval[1], "runs": {"tokens_per_second": rates, "read_gigabytes_per_second": reads, "generate": ours, "peer": theirs}}
    if theirs:
        result |= {"generate_tokens_per_second": statistics.median(ours), "peer_tokens_per_second": statistics.median(theirs),
                   "ratio": statistics.median(ours) / statistics.median(theirs)}
    common.save(result, args.json)


if __name__ == "__main__":
    main()
