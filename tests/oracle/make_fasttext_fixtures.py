#!/usr/bin/env python3
"""Trains small models with fastText's program and writes them with its predictions to tests/fixtures/curate/fasttext.

  python tests/oracle/make_fasttext_fixtures.py docs tests/fixtures/curate/fasttext

Lines of this project's documentation and of its source code are told apart: three labels, so that a tree has an inner node below its root. Needs the
program fasttext 0.9.2 (Debian: apt-get install fasttext) in PATH.
"""
import json
import pathlib
import random
import re
import subprocess
import sys
import tempfile

COMMON = ["-dim", "8", "-minCount", "4", "-thread", "1", "-verbose", "0", "-seed", "3"]
MODELS = {
    "hierarchical.ftz": (["-loss", "hs", "-lr", "0.6", "-epoch", "3", "-minn", "2", "-maxn", "4", "-bucket", "2000"], ["-cutoff", "400", "-dsub", "3", "-qnorm"]),
    "softmax.bin": (["-loss", "softmax", "-lr", "0.1", "-epoch", "2", "-wordNgrams", "2", "-bucket", "300"], None),
    "one_vs_all.ftz": (["-loss", "ova", "-lr", "0.1", "-epoch", "2", "-minn", "1", "-maxn", "3", "-bucket", "400"], ["-dsub", "2"]),
}


def main():
    rng = random.Random(1)
    root, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    kinds = {"prose": root.glob("*.md"), "code": (root.parent / "src/curate").rglob("*.cc"), "script": (root.parent / "scripts").glob("*.py")}
    rows = [(kind, " ".join(line.split())) for kind, files in kinds.items() for f in sorted(files) for line in f.read_text(encoding="utf-8").splitlines()
            if len(line) > 30 and kind != "prose" or re.match(r"[A-Z].{60}", line)]
    rng.shuffle(rows)
    rows = rows[:1500]
    texts = [text[:90] for _, text in rows[:40]] + ["", " ", "é", "zzz qqq", "__label__prose the code", "one\ttwo\x0bthree", "Ünïcödé größer"]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "train").write_text("".join(f"__label__{kind} {text}\n" for kind, text in rows), encoding="utf-8")
        (folder / "texts").write_text("".join(t + "\n" for t in texts), encoding="utf-8")
        with open(out / "predictions.jsonl", "w", encoding="utf-8") as file:
            for model, (settings, quantise) in MODELS.items():
                subprocess.run(["fasttext", "supervised", "-input", folder / "train", "-output", folder / "m"] + COMMON + settings, check=True)
                if quantise is not None:
                    subprocess.run(["fasttext", "quantize", "-input", folder / "train", "-output", folder / "m"] + quantise, check=True)
                (out / model).write_bytes((folder / f"m.{model.rsplit('.', 1)[1]}").read_bytes())
                lines = subprocess.run(["fasttext", "predict-prob", out / model, folder / "texts", "3"], check=True, capture_output=True, text=True).stdout.split("\n")
                for text, line in zip(texts, lines):
                    fields = line.split()
                    found = {label.removeprefix("__label__"): float(p) for label, p in zip(fields[::2], fields[1::2])}
                    file.write(json.dumps({"model": model, "text": text, "labels": found}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
