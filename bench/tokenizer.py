#!/usr/bin/env python3
"""Tokenizer speed beside Hugging Face `tokenizers`: encoding on one thread and training, alternating in one run.

  python bench/tokenizer.py --stoa build/release/src/stoa --vocab gpt2/vocab.json --merges gpt2/merges.txt TEXT...
  python bench/tokenizer.py --stoa build/release/src/stoa --tokenizer DIRECTORY TEXT...    # its tokenizer.json; encoding alone

Each non-empty line is one text for both. Prints per file the median of the rounds and the ratio; ids, vocabularies and
merges must be identical, or it exits with 1. `--json FILE` keeps the figures. Needs: pip install tokenizers
"""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"
import tokenizers  # noqa: E402  (reads the number of threads when it starts)
from tokenizers import Tokenizer, models, pre_tokenizers, processors, trainers  # noqa: E402


def cpu():
    with open("/proc/cpuinfo") as f:
        return next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), platform.processor())


def stoa_json(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def hf_encode(tok, docs, repeat):
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        for i in range(0, len(docs), 1000):
            tok.encode_batch_fast(docs[i:i + 1000])
        best = min(best, time.perf_counter() - start)
    return best


def hf_train(docs, vocab_size):
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                  special_tokens=["<|endoftext|>"], show_progress=False)
    start = time.perf_counter()
    tok.train_from_iterator(docs, trainer)
    return time.perf_counter() - start, json.loads(tok.to_str())["model"]


def peer_of(a, directory):
    """Hugging Face's tokenizer, of the same files as ours in `directory`."""
    if a.tokenizer:
        os.symlink(os.path.abspath(os.path.join(a.tokenizer, "tokenizer.json")), os.path.join(directory, "tokenizer.json"))
        tok = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
        tok.no_truncation()
        tok.no_padding()
        tok.post_processor = processors.Sequence([])  # both encode words alone
        return tok
    for source, name in ((a.vocab, "vocab.json"), (a.merges, "merges.txt")):
        os.symlink(os.path.abspath(source), os.path.join(directory, name))
    tok = Tokenizer(models.BPE.from_file(a.vocab, a.merges))
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tok.add_special_tokens(["<|endoftext|>"])
    return tok


def train_both(a, docs, clean, trained):
    """Seconds of both, and whether vocabularies and merges are the same."""
    seconds, model = hf_train(docs, a.train_vocab)
    ours = stoa_json(a.stoa, "tokenizer", "train", clean, "--unit", "line", "--vocab-size", str(a.train_vocab), "--output", trained,
                     "--workers", "1", "--json")["seconds"]
    made = json.load(open(os.path.join(trained, "tokenizer.json")))["model"]
    return seconds, ours, made["vocab"] == model["vocab"] and made["merges"] == model["merges"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--stoa", required=True)
    parser.add_argument("--tokenizer")
    parser.add_argument("--vocab")
    parser.add_argument("--merges")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--train-vocab", type=int, default=8192)
    parser.add_argument("--json")
    a = parser.parse_args()
    if bool(a.tokenizer) == bool(a.vocab and a.merges):
        parser.error("give --tokenizer, or --vocab and --merges")
    failed, results = False, []
    with tempfile.TemporaryDirectory() as directory:
        tok = peer_of(a, directory)
        for path in a.texts:
            docs = [line for line in open(path, encoding="utf-8", newline="").read().split("\n") if line]
            mb = sum(len(d.encode()) for d in docs) / 1e6
            clean = os.path.join(directory, "text")
            with open(clean, "w", encoding="utf-8", newline="") as f:
                f.write("".join(d + "\n" for d in docs))
            encode, first, train, same_vocab = {"hf": [], "stoa": []}, [], [], True
            for _ in range(a.rounds):
                encode["hf"].append(mb / hf_encode(tok, docs, 3))
                r = stoa_json(a.stoa, "tokenizer", "bench", "--tokenizer", directory, clean, "--repeat", "3")
                encode["stoa"].append(r["mb_per_s"])
                first.append(r["first_mb_per_s"])
                if not a.tokenizer:
                    train.append(train_both(a, docs, clean, os.path.join(directory, "trained")))
                    same_vocab &= train[-1][2]
            out = subprocess.run([a.stoa, "tokenizer", "encode", "--tokenizer", directory, clean], check=True,
                                 capture_output=True, text=True).stdout.split("\n")
            same_ids = all(" ".join(map(str, e.ids)) == line for e, line in zip(tok.encode_batch(docs), out)) \
                and len(out) == len(docs) + 1
            failed |= not (same_ids and same_vocab)
            median = statistics.median
            result = {"file": os.path.basename(path), "model": type(tok.model).__name__, "mb": round(mb, 2), "cpu": cpu(),
                      "peer": f"tokenizers {tokenizers.__version__}", "threads": 1, "encode_mb_per_s": round(median(encode["stoa"]), 1),
                      "encode_first_pass_mb_per_s": round(median(first), 1), "peer_encode_mb_per_s": round(median(encode["hf"]), 2),
                      "encode_ratio": round(median(encode["stoa"]) / median(encode["hf"]), 1), "ids_identical": same_ids}
            if train:
                peer, ours = (median(t[i] for t in train) for i in (0, 1))
                result |= {"train_seconds": round(ours, 4), "peer_train_seconds": round(peer, 4), "train_ratio": round(peer / ours, 1),
                           "train_vocab": a.train_vocab, "vocabulary_and_merges_identical": same_vocab}
            results.append(result)
            print(json.dumps(result, indent=2))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(results, f, indent=2)
            f.write("\n")
    sys.exit(1 if failed else 0)


main()
