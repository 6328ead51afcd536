#!/usr/bin/env python3
"""T5-base (1.1) on a CPU beside PyTorch + transformers, alternating in one run: training (eager and torch.compile) and greedy answers;
and a pipeline of two ranks beside one rank.

  python bench/t5.py [train] [generate] [pipeline] [--rounds 2] [--json bench/results/t5.json]

train: 8 pairs of 512 source and 128 target tokens, bf16, as many threads as cores; rates are pairs per second.
generate: sources of 128 tokens, answers of 64, bf16, batches of 1 and 16, from random weights that transformers saves and both read;
rates are tokens of the answers per second, the reading of the sources included.
pipeline: 8 microbatches of --rows / 4 pairs; one rank of two threads, then two ranks of one thread that share encoder and decoder at
--layers; the ratio of a round is that of neighbours in time, the median counts. The losses must be the same.
Needs: pip install torch transformers; g++ for torch.compile.
"""
import argparse
import json
import os
import pathlib
import statistics
import tempfile
import time

import common

VOCABULARY, SOURCE, TARGET, READ, WRITTEN = 32128, 512, 128, 128, 64
MODEL = ["bench", "train", "t5-220m", f"model.vocab_size={VOCABULARY}", "model.share_embeddings_and_output_weights=false",
         "model.hidden_dropout=0", "model.attention_dropout=0", "model.embedding_dropout=0", "--json"]
PIECES, WORDS = 28, 128  # the tokenizer's, and with a hundred sentinels


def new_model():
    import torch
    import transformers
    torch.manual_seed(1)
    config = transformers.T5Config(vocab_size=VOCABULARY, d_model=768, d_kv=64, d_ff=2048, num_layers=12, num_heads=12, dropout_rate=0.0,
                                   feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0)
    model = transformers.T5ForConditionalGeneration(config)
    # transformers 5 ties the head of a new model whatever it is told; one that was read from files has its own.
    head = torch.randn(VOCABULARY, 768) * 768 ** -0.5
    head[:3] = head[WORDS:] = 0  # answers are of the tokenizer's words, and do not end early
    model.lm_head.weight = torch.nn.Parameter(head)
    return model


def train_peer(args):
    import torch
    model = new_model()
    inputs = {"input_ids": torch.randint(2, VOCABULARY, (args.rows, SOURCE)), "labels": torch.randint(2, VOCABULARY, (args.rows, TARGET))}
    seconds = common.train_in_torch(model, inputs, args)
    print(json.dumps({"step_seconds": statistics.median(seconds), "torch": torch.__version__}))


def generate_peer(args):
    import torch
    import transformers
    torch.set_num_threads(args.threads)
    model = transformers.T5ForConditionalGeneration.from_pretrained(args.model, dtype=torch.bfloat16).eval()
    ids = torch.tensor(json.loads(pathlib.Path(args.ids).read_text()))
    for batch in (1, 16):
        rates = []
        for _ in range(2):
            begin = time.perf_counter()
            with torch.no_grad():
                out = model.generate(ids[:batch], max_new_tokens=WRITTEN, min_new_tokens=WRITTEN, do_sample=False, num_beams=1)
            rates.append(batch * (out.shape[1] - 1) / (time.perf_counter() - begin))
        print(json.dumps({"batch": batch, "tokens_per_second": max(rates)}))


def bench_train(args, result):
    count = ["--steps", args.steps, "--warmup", args.warmup, "--threads", args.threads]
    ours, theirs = [], {mode: [] for mode in args.modes}
    for _ in range(args.rounds):
        ours += common.json_lines(args.stoa, *MODEL, f"model.micro_batch_size={args.rows}", f"model.global_batch_size={args.rows}", *count)
        for mode in args.modes:
            theirs[mode] += common.json_lines(args.python, pathlib.Path(__file__), "--peer", "train", "--mode", mode, "--rows", args.rows,
                                              *count)
    step = statistics.median(row["step_seconds"] for row in ours)
    result["train"] = {"rows": args.rows, "stoa_step_seconds": step, "stoa_pairs_per_second": args.rows / step}
    for mode in args.modes:
        peer = statistics.median(row["step_seconds"] for row in theirs[mode])
        result["train"][mode] = {"step_seconds": peer, "times_as_fast": peer / step}


def bench_pipeline(args, result):
    pairs = args.rows // 4
    model = [*MODEL, f"model.micro_batch_size={pairs}", f"model.global_batch_size={8 * pairs}", "--steps", args.steps, "--warmup", args.warmup]
    layouts = {"one_rank": ["--threads", 2],
               "two_stages": ["--threads", 1, "--ranks", 2, "model.pipeline_model_parallel_size=2", f"model.pipeline_layers={args.layers}",
                              f"model.pipeline_schedule={args.schedule}"]}
    seconds, losses = {name: [] for name in layouts}, {}
    for _ in range(args.rounds):
        for name, more in layouts.items():
            row, = common.json_lines(args.stoa, *model, *more)
            seconds[name].append(row["step_seconds"])
            losses[name] = row["last_loss"]
    ratios = [one / two for one, two in zip(seconds["one_rank"], seconds["two_stages"])]
    result["pipeline"] = {"microbatches": 8, "pairs": pairs, "layers": args.layers, "schedule": args.schedule, "step_seconds": seconds,
                          "ratio": statistics.median(ratios), "range": [min(ratios), max(ratios)], "bar": 0.85, "losses": losses,
                          "same_loss": losses["one_rank"] == losses["two_stages"]}


def bench_generate(args, result):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        words = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"]
        (folder / "words.txt").write_text("\n".join(" ".join(words[(i * j) % 8] for j in range(12)) for i in range(200)))
        common.output(args.stoa, "tokenizer", "train", folder / "words.txt", "--kind", "unigram", "--vocab-size", PIECES, "--output",
                      folder / "model")
        common.output(args.python, pathlib.Path(__file__), "--peer", "save", "--model", folder / "model")
        lines = [" ".join(words[(i * 5 + j * j) % 8] for j in range(READ - 1)) for i in range(16)]
        rates, theirs = {1: [], 16: []}, {1: [], 16: []}
        for _ in range(args.rounds):
            for batch in rates:
                (folder / "prompts.txt").write_text("\n".join(lines[:batch]) + "\n")
                answers = common.json_lines(args.stoa, "generate", folder / "model", "--prompts", folder / "prompts.txt", "--greedy",
                                            "--max-tokens", WRITTEN, "--dtype", "bf16", "--threads", args.threads, "--json")
                tokens = sum(len(a["ids"]) for a in answers)
                seconds = tokens / answers[0]["tokens_per_second"] + answers[0].get("prompt_seconds", 0)
                rates[batch].append(tokens / seconds)
            (folder / "ids.json").write_text(json.dumps([a["prompt_ids"] for a in answers]))
            for row in common.json_lines(args.python, pathlib.Path(__file__), "--peer", "generate", "--model", folder / "model", "--ids",
                                         folder / "ids.json", "--threads", args.threads):
                theirs[row["batch"]].append(row["tokens_per_second"])
        result["generate"] = {"source_tokens": len(answers[0]["prompt_ids"]), "answer_tokens": WRITTEN}
        for batch in rates:
            mine, peer = statistics.median(rates[batch]), statistics.median(theirs[batch])
            result["generate"][f"batch_{batch}"] = {"tokens_per_second": mine, "peer_tokens_per_second": peer, "ratio": mine / peer,
                                                    "answer_lengths": sorted({len(a["ids"]) for a in answers})}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="*", default=[])
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--python", default="python3", help="a Python that has PyTorch and transformers")
    parser.add_argument("--modes", nargs="*", default=["eager", "compile"], choices=["eager", "compile"])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--warmup", type=int, default=1)
    parser.add_argument("--rows", type=int, default=8)
    parser.add_argument("--layers", default="[9,15]", help="of each stage: encoder layers first")
    parser.add_argument("--schedule", default="1f1b")
    parser.add_argument("--json")
    for hidden in ("--peer", "--mode", "--model", "--ids"): parser.add_argument(hidden, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.peer == "train": return train_peer(args)
    if args.peer == "generate": return generate_peer(args)
    if args.peer == "save":
        import torch
        return new_model().to(torch.bfloat16).save_pretrained(args.model)
    unknown = set(args.what) - {"train", "generate", "pipeline"}
    if unknown: parser.error(f"unknown: {sorted(unknown)}; expected train, generate, pipeline")
    result = {**common.facts(), "benchmark": "t5", "model": "T5-base 1.1, random", "dtype": "bf16", "threads": args.threads}
    if not args.what or "train" in args.what: bench_train(args, result)
    if not args.what or "generate" in args.what: bench_generate(args, result)
    if not args.what or "pipeline" in args.what: bench_pipeline(args, result)
    print(json.dumps(result, indent=2))
    if args.json: pathlib.Path(args.json).write_text(json.dumps(result, indent=2) + "\n")


main()
