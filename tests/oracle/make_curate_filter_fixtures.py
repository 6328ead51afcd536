#!/usr/bin/env python3
"""Writes what NeMo Curator's filters and datatrove's PII formatter make of texts: tests/fixtures/curate/nemo.jsonl and pii.jsonl.

  python tests/oracle/make_curate_filter_fixtures.py WHEEL_FOLDER docs tests/fixtures/curate

WHEEL_FOLDER: the unpacked wheel of nemo-curator 1.4.0 (pip download --no-deps nemo-curator==1.4.0; unzip): its filter modules are loaded
without the rest, which needs Ray. Texts are pages of this project and generated ones. Needs what make_curate_fixtures.py needs.
"""
import importlib
import json
import pathlib
import random
import sys
import types

import make_curate_fixtures as base
from datatrove.pipeline.formatters.pii import PIIFormatter


def nemo_chain(folder):
    sys.path.insert(0, folder)
    for name in ("nemo_curator", "nemo_curator.stages", "nemo_curator.stages.text", "nemo_curator.stages.text.filters",
                 "nemo_curator.stages.text.utils", "nemo_curator.stages.text.filters.heuristic"):
        module = types.ModuleType(name)
        module.__path__ = [f"{folder}/{name.replace('.', '/')}"]
        sys.modules[name] = module
    filters = types.ModuleType("nemo_curator.stages.text.filters.doc_filter")
    filters.DocumentFilter = type("DocumentFilter", (), {"__init__": lambda self: self.__dict__.update(_sentences=None, _paragraphs=None, _ngrams=None)})
    sys.modules[filters.__name__] = filters
    s = importlib.import_module("nemo_curator.stages.text.filters.heuristic.string")
    r = importlib.import_module("nemo_curator.stages.text.filters.heuristic.repetition.repetition")
    r.set = lambda pieces: list(dict.fromkeys(pieces))  # in order, so that the first of equally frequent n-grams counts, not any
    chain = [s.NonAlphaNumericFilter(), s.SymbolsToWordsFilter(), s.NumbersFilter(), s.UrlsFilter(), s.WhiteSpaceFilter(), s.ParenthesesFilter(),
             s.BoilerPlateStringFilter(), r.RepeatedLinesFilter(), r.RepeatedParagraphsFilter(), r.RepeatedLinesByCharFilter(),
             r.RepeatedParagraphsByCharFilter(), s.WordCountFilter(), s.PunctuationFilter(), s.WordsWithoutAlphabetsFilter(),
             s.CommonEnglishWordsFilter(), s.MeanWordLengthFilter(), s.LongWordFilter(), s.EllipsisFilter()]
    chain += [r.RepeatingTopNGramsFilter(n, limit) for n, limit in ((2, .2), (3, .18), (4, .16))]
    chain += [r.RepeatingDuplicateNGramsFilter(n, limit) for n, limit in zip(range(5, 11), (.15, .14, .13, .12, .11, .10))]
    return chain + [s.BulletsFilter()]


def decide(chain, text):
    """The filters that the document fails: the first decides."""
    failed = []
    for f in chain:
        try:
            score = f.score_document(text)
        except (ZeroDivisionError, ValueError):
            return ["empty"]
        if not f.keep_document(score):
            failed.append(f._name)
    return failed


def addresses(rng):
    atoms = ["joe", "a.b", "x..y", ".z", "o'neil", "a+b", "joe#1", "ü", "é.x", "_", "-", "{c}", "1.2.3.4", "8.8.8.8", "10.0.0.1", "999.8.7.6", "1.2.3.256",
             "01.2.3.4", "100.64.1.1", "172.16.5.4", "203.0.113.9", "1234.5.6.78", "8.8.4.4.4", "192.0.2.1.example.com"]
    hosts = ["example.com", "a-b.c-d.org", "x.-y.z", "host", "a.b.", "[1.2.3.4]", "[1.2.3.foo:]", "[300.1.1.1]", "q.w.e.r", "a..b", "ex-.com", "1.2.3.4"]
    pieces = []
    for _ in range(rng.randint(3, 12)):
        pieces.append(rng.choice(atoms) + rng.choice(["@", "@", "", "@@"]) + rng.choice(hosts))
        pieces.append(rng.choice([" ", "", ",", "\n", " mail ", ":", "é", "."]))
    return "".join(pieces)


def main():
    chain, rng = nemo_chain(sys.argv[1]), random.Random(9)
    pages = [p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(sys.argv[2]).glob("*.md"))]
    out = pathlib.Path(sys.argv[3])
    texts = [base.mutate(rng, p[i * 2000:i * 2000 + 2500], 2500) for p in pages for i in range(2)] + [base.generate(rng, 90) for _ in range(20)]
    paragraphs = [p for page in pages for p in page.split("\n\n") if 200 < len(p) < 700 and "|" not in p]
    texts += ["\n\n".join(rng.sample(paragraphs, 3)) for _ in range(20)] + ["", " \n ", "# # # ...", "see http://a.b/c%20d and https://x.y"]
    texts += ["http://example.org/a/long/address?that=is&most=of%20it " * 3, "• one\n• two\n• three", "We value privacy overview.\n\nterms of use\n\nfine"]
    with open(out / "nemo.jsonl", "w", encoding="utf-8") as file:
        for text in texts:
            file.write(json.dumps({"text": text, "fails": decide(chain, text)}, ensure_ascii=False) + "\n")
    formatter = PIIFormatter(email_replacement=("<mail>",), ip_replacement=("<ip>",))
    everything = PIIFormatter(email_replacement=("<mail>",), ip_replacement=("<ip>",), only_remove_public_ips=False)
    with open(out / "pii.jsonl", "w", encoding="utf-8") as file:
        for text in [addresses(rng) for _ in range(300)]:
            file.write(json.dumps({"text": text, "public": formatter.format(text), "all": everything.format(text)}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
