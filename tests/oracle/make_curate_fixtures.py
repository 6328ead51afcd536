#!/usr/bin/env python3
"""Writes tests/fixtures/curate/datatrove.jsonl: what datatrove 0.10.1 makes of texts: its words and sentences, the decision of
FineWeb's chain with the text that it leaves, simplified text and MinHash signature.

  python tests/oracle/make_curate_fixtures.py DIRECTORY_OF_TEXTS tests/fixtures/curate

The texts are pages of this project (docs/*.md), whole and mutated, and generated ones of everything that English words are cut at.
tests/slow/curate_oracle.py compares the same on any number of real documents. Needs: pip install datatrove==0.10.1 spacy==3.8.18 tokenizers
'xxhash<3.6'
"""
import json
import pathlib
import random
import re
import sys
import warnings

warnings.simplefilter("ignore")
import spacy  # noqa: E402
from datatrove.data import Document  # noqa: E402
from datatrove.pipeline.dedup.minhash import MinhashConfig, MinhashDedupSignature  # noqa: E402
from datatrove.pipeline.filters import C4QualityFilter, FineWebQualityFilter, GopherQualityFilter, GopherRepetitionFilter  # noqa: E402
from datatrove.utils.text import simplify_text, split_into_sentences, split_into_words  # noqa: E402

CHAIN = [("gopher_repetition", GopherRepetitionFilter()), ("gopher_quality", GopherQualityFilter()),
         ("c4_quality", C4QualityFilter(filter_no_terminal_punct=False)), ("fineweb_quality", FineWebQualityFilter())]
# The one word on which spaCy's behaviour depends on what it was asked before.
UNSPEAKABLE = "IS_ALPHA"

EXCEPTIONS = [r for r in spacy.blank("en").tokenizer.rules if not r.isspace()]
PIECES = list("§%=—–+…,:;!?¿؟¡()[]{}<>_#*&。？！，、；：～·।،۔؛٪'\"”“`‘´’‚„»«「」『』（）【】《》〈〉⟦⟧$£€¥฿₽-~/\\|@^.°²\u200b\ufeff\xa0\x85"
              "\u2028\u3000\x1c\x0b\x0cΣς İßǅéÅ한글ﬁ½٣۵९𝟘😀™©a1Z") + [
    "...", "..", "……", "--", "---", "——", "US$", "C$", "km", "kg", "km/h", "mb", "°C.", "'s", "’S", "n't", "http://",
    "https://www.example.com/a?b#c", "user@host.org", "mailto:a.b@c.de", "127.0.0.1", "8.8.8.8", "192.168.1.1:80", "www.foo.co.uk:8080/x",
    "foo.Bar", "U.S.A.", "e.g.", "lorem ipsum", "JavaScript", "{", "[edit]", "[12]", "[citation needed]", "\n", "\n\n", "  ", "\r\n", "\t",
    "privacy policy", "uses cookies", "•", "- "]
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def piece(rng):
    kind = rng.random()
    if kind < .25:
        return rng.choice(EXCEPTIONS)
    if kind < .5:
        return rng.choice(PIECES)
    if kind < .6:
        return str(rng.randint(0, 10 ** rng.randint(1, 5)))
    if kind < .65:
        return chr(rng.choice([rng.randint(0x80, 0x2fff), rng.randint(0x3000, 0xd7ff), rng.randint(0xe000, 0xffff), rng.randint(0x10000, 0x1ffff)]))
    return "".join(rng.choice(LETTERS) for _ in range(rng.randint(1, 8)))


def generate(rng, longest=200):
    return "".join(piece(rng) + rng.choice(["", "", "", " ", " ", " ", "\n", "  "]) for _ in range(rng.randint(20, longest)))


def mutate(rng, text, most=8000):
    words = re.split(r"(\s+)", text[:most])
    for _ in range(rng.randint(1, 30)):
        i, kind = rng.randrange(len(words)), rng.random()
        if kind < .3:
            words[i] += piece(rng)
        elif kind < .5:
            words[i] = piece(rng) + words[i]
        elif kind < .7:
            j = rng.randrange(len(words))
            words[i:i] = words[j:j + rng.randint(1, 30)]
        elif kind < .8:
            words[i] = rng.choice(["\n", "\n\n", " ", "  ", "\n- ", "...\n"])
        elif kind < .9:
            del words[i:i + rng.randint(1, 20)]
            words = words or ["x"]
        else:
            words[i] = words[i].upper()
    return "".join(words)


def decide(text):
    """The first reason, or None, and the text that is left."""
    document = Document(text=text, id="")
    for name, stage in CHAIN:
        answer = stage.filter(document)
        keep, reason = answer if isinstance(answer, tuple) else (answer, "")
        if not keep:
            return f"{name}/{reason}", None
    return None, document.text


MINHASH = MinhashDedupSignature("/nonexistent", MinhashConfig())


def signature(text):
    shingles = MINHASH.get_shingles(text)
    return sum(MINHASH.get_signature(shingles), []) if shingles.size else []


def main():
    rng = random.Random(5)
    pages = [p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(sys.argv[1]).glob("*.md"))]
    prose = "\n\n".join(pages)
    paragraphs = [re.sub(r"[`|*#]", "", p) for p in prose.split("\n\n") if len(p) > 200 and not p.startswith(("|", "```"))]
    texts = [generate(rng, 120) for _ in range(40)]
    texts += [mutate(rng, p[:3000]) for p in pages[:10]]
    texts += ["\n".join(rng.sample(paragraphs, rng.randint(2, 5))) for _ in range(25)]
    texts += ["", "\n\n", " x ", "Die Σ ΟΔΟΣ.  Two.\n\nIt's 5km. [1] A 10a.m. call: http://a.b.co/c?d, ok."]
    out = pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "datatrove.jsonl", "w", encoding="utf-8") as file:
        for text in texts:
            assert UNSPEAKABLE not in text
            reason, left = decide(text)
            row = {"text": text, "words": split_into_words(text), "sentences": len(split_into_sentences(text)), "reason": reason or ""}
            if reason is None and left != text:
                row["left"] = left
            if len(text) < 2500:
                row["simplified"] = simplify_text(text)
                row["signature"] = [f"{h:x}" for h in signature(text)[::8]]
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
