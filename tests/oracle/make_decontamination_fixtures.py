#!/usr/bin/env python3
"""Writes what lm-eval's janitor and datatrove's n-gram filter make of documents that hold tests: tests/fixtures/curate/contaminated.jsonl, and the tests,
contamination_tests.jsonl.

  python tests/oracle/make_decontamination_fixtures.py WHEEL_FOLDER docs tests/fixtures/curate

WHEEL_FOLDER: the unpacked wheel of lm_eval (pip download --no-deps lm_eval; unzip). Needs what make_curate_fixtures.py needs.
"""
import importlib.util
import json
import pathlib
import random
import re
import sys

from datatrove.data import Document
from datatrove.pipeline.decont.n_grams import NGramsDecontConfig, NGramsDecontFilter, NGramsDecontIndexer


def main():
    spec = importlib.util.spec_from_file_location("janitor", f"{sys.argv[1]}/lm_eval/decontamination/janitor.py")
    janitor_module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(janitor_module)
    rng = random.Random(4)
    pages = [p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(sys.argv[2]).glob("*.md"))]
    paragraphs = [" ".join(re.sub(r"[`|*]", "", p).split()) for page in pages for p in page.split("\n\n") if 150 < len(p) < 700]
    rng.shuffle(paragraphs)
    tests, clean = [], paragraphs[40:]
    for p in paragraphs[:40]:
        words = p.split()
        cut = rng.randint(0, len(words))
        tests.append({"question": " ".join(words[:cut]), "answer": " ".join(words[cut:])})
    janitor = janitor_module.Janitor()
    for t in tests:
        janitor.register_contaminant_python((t["question"] + " " + t["answer"]) if t["question"] else t["answer"])
    filters = {}
    for name, query in (("datatrove", False), ("datatrove_query", True)):
        config = NGramsDecontConfig(find_query_ngrams=query)
        indexer = object.__new__(NGramsDecontIndexer)
        good = NGramsDecontFilter("/nonexistent", config)
        indexer.config, indexer.tokenizer, indexer.hash_func = config, good.tokenizer, good.hash_func
        good._index_hashes = {h: "tests" for t in tests for h in indexer.compute_hashes(t["answer"], t["question"])}
        filters[name] = good
    out = pathlib.Path(sys.argv[3])
    (out / "contamination_tests.jsonl").write_text("".join(json.dumps(t, ensure_ascii=False) + "\n" for t in tests), encoding="utf-8")
    with open(out / "contaminated.jsonl", "w", encoding="utf-8") as file:
        for i in range(120):
            parts = rng.sample(clean, rng.randint(1, 5))
            for _ in range(rng.randint(0, 2)):
                t = rng.choice(tests)
                words = (t["question"] + " " + t["answer"]).split()
                begin = rng.randrange(len(words))
                piece = words[begin:begin + rng.randint(8, 24)]
                if rng.random() < .3:
                    piece = [w.upper() + rng.choice(["", "!", ",", " -", "é"]) if rng.random() < .1 else w for w in piece]
                parts.insert(rng.randint(0, len(parts)), rng.choice([" ", "\n", "  "]).join(piece))
            text = rng.choice(["\n", "\n\n", " "]).join(parts)
            hits = any(janitor.normalize_string(n) in janitor.dirt_ngrams for n in janitor_module.word_ngrams(text, 13))
            row = {"text": text, "gpt3": janitor.clean_python(text) if hits else [text]}
            for name, f in filters.items():
                row[name] = f.filter(Document(text=text, id="")) is not True
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
