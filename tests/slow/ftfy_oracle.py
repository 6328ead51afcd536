#!/usr/bin/env python3
"""Compares the stage `fix_text` with ftfy itself on real texts, and on generated and damaged ones.

  python tests/slow/ftfy_oracle.py STOA [DOCUMENTS.jsonl] [--generated N] [--seed S] [--processes P] [--longest C]

DOCUMENTS: texts as `curate_oracle.py --collect` collects them; each is compared as it is, and pieces of them are damaged. Both the default settings and those of datatrove's
FTFYFormatter are compared. Prints the number of texts and of differences; ends with 1 if there are any. Run it with Python 3.11 (Unicode 14). Needs: pip install ftfy==6.3.1
"""
import argparse
import functools
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
import make_ftfy_fixtures as oracle  # noqa: E402

KEYS = {"default": {}, "datatrove's": oracle.PLAIN}


def answer(keys, text):
    return oracle.ftfy.fix_text(text, **keys)


def stoa_answers(stoa, folder, keys):
    yaml = {k: {None: "none"}.get(v, v) for k, v in keys.items()}
    (folder / "pipeline.yaml").write_text("allow_empty: true\nstages:\n  - fix_text: " + json.dumps(yaml) + "\n")
    subprocess.run([stoa, "data", "run", folder / "pipeline.yaml", "--input", folder / "in.jsonl", "--output", folder / "out"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = {int(row["id"]): row["text"] for file in folder.glob("out/kept/*") for row in map(json.loads, open(file, encoding="utf-8"))}
    subprocess.run(["rm", "-r", folder / "out"], check=True)
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("documents", nargs="?")
    parser.add_argument("--generated", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--longest", type=int, default=20_000, help="characters of a document that is taken")
    parser.add_argument("--processes", type=int, default=1)
    a = parser.parse_args()
    real = [t for line in open(a.documents, encoding="utf-8") if len(t := json.loads(line)["text"]) <= a.longest] if a.documents else []
    rng = random.Random(a.seed)
    sources = oracle.SENTENCES * (1 + len(real) // len(oracle.SENTENCES)) + real
    texts = real + [oracle.generate(rng, sources) for _ in range(a.generated)]
    texts = [t.replace("\0", "") for t in texts]
    texts = [t for t in texts if oracle.usable(t)]
    differences = 0
    with multiprocessing.Pool(a.processes) as pool, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "in.jsonl").write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)))
        for title, keys in KEYS.items():
            rows = stoa_answers(a.stoa, folder, keys)
            changed = wrong = 0
            for i, said in enumerate(pool.imap(functools.partial(answer, keys), texts, chunksize=200)):
                changed += said != texts[i]
                if said != rows.get(i):
                    wrong += 1
                    if wrong <= 20:
                        print(f"text {i}: {texts[i]!r}\n  ftfy {said!r}\n  Stoa {rows.get(i)!r}")
            print(f"{title} settings: {len(texts)} texts of {sum(map(len, texts)):,} characters, {changed} of them repaired, {wrong} differences")
            differences += wrong
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
