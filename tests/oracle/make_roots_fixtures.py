#!/usr/bin/env python3
"""Writes tests/fixtures/curate/roots.jsonl: what ROOTS' own filters make of texts with English thresholds.

  python tests/oracle/make_roots_fixtures.py SOURCES docs tests/fixtures/curate/roots.jsonl

SOURCES: a folder with filtering.py, parameters_filtering.py and normalization.py of github.com/bigscience-workshop/data-preparation
(preprocessing/training/01b_oscar_cleaning_and_filtering). Texts are pages of this project, whole and mutated. Needs: pip install emoji==1.6.1 numpy
"""
import json
import pathlib
import random
import re
import sys
import types

sys.path.insert(0, sys.argv[1])
for name in ("fasttext", "sentencepiece", "kenlm", "languages_id", "stopwords", "flagged_words"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["languages_id"].langs_id = sys.modules["stopwords"].stopwords = sys.modules["flagged_words"].flagged_words = {}
from filtering import Filtering, ModifyingDocuments  # noqa: E402
from parameters_filtering import parameters_filtering_en as en  # noqa: E402

STOP = {"the", "of", "and", "to", "in", "a", "is"}
FLAGGED = {"files", "blue"}
PIECES = ["\u00a0", "\u3000", "\ufffc", "\t", "\n", "  ", "...", "\u2022", "\u4e2d\u6587", "\U0001f600", "http://a.b", "www.x.com", "href", "//", "x" * 30, "!" * 30, "-" * 20 + "word" + "-" * 9,
          "\u03a3\u0391\u03a3", "The", "AND", "1234", "ha " * 20, "\u0e52", "(see", "end)."]


def generate(rng, pages):
    words = re.split(r"(\s+)", rng.choice(pages))
    begin = rng.randrange(len(words))
    words = words[begin:begin + rng.randint(5, 400)]
    for _ in range(rng.randint(0, 12)):
        words.insert(rng.randrange(len(words) + 1), rng.choice(PIECES))
    if rng.random() < .3:
        words += words[:rng.randint(1, 60)] * rng.randint(1, 3)
    return "".join(words)


def describe(text):
    left = ModifyingDocuments.modifying_documents(
        document=text, cond_uniform_whitespace=True, cond_replace_unicode_punctuation=False, cond_remove_words_with_incorrect_substrings=True,
        strip_characters=en["strip_characters"], incorrect_word_substrings=en["incorrect_word_substrings"], cond_remove_long_words=True,
        length_word_max_cutoff=en["length_word_max_cutoff"])
    special = en["special_characters"]
    words = ModifyingDocuments.get_words_from_document(left, None, lower_case=False, strip_characters=special)
    share = dict(document=left, sentencepiece_model_tok=None, strip_characters=special, cond_words_augmentation=False, words_augmentation_group_sizes=[],
                 words_augmentation_join_char="")
    return {"text": text, "left": left, "number_words": len(words),
            "character_repetition": Filtering.compute_character_repetition_ratio(left, en["character_repetition_length"]),
            "word_repetition": Filtering.compute_word_repetition_ratio(left, None, special, en["word_repetition_length"]),
            "special_characters": Filtering.compute_special_characters_ratio(left, special),
            "stopwords": Filtering.compute_stopwords_ratio(**share, stopwords=STOP),
            "flagged_words": Filtering.compute_flagged_words_ratio(**share, flagged_words=FLAGGED)}


def main():
    rng = random.Random(46)
    pages = [p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(sys.argv[2]).glob("*.md"))]
    with open(sys.argv[3], "w", encoding="utf-8") as out:
        for text in [generate(rng, pages) for _ in range(150)] + ["", " \n\t ", "...", "one"]:
            out.write(json.dumps(describe(text), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
