#!/usr/bin/env python3
"""Writes tests/fixtures/eval/ruler.json: what lm-evaluation-harness makes of RULER's tasks, as hashes of all documents, with a tokenizer whose tokens
are four characters each, from made essays and questions; and the order of answers that Python's generator gives GPQA.

    make_ruler_fixtures.py

Python with lm_eval 0.4.13, nltk, wonderwords 3.0.1, scipy, datasets. Runs offline.
"""
import hashlib
import importlib
import json
import os
import pathlib
import random
import types

FOLDER = pathlib.Path(__file__).parents[1] / "fixtures/eval"
WORDS = pathlib.Path(__file__).parents[2] / "configs/eval/ruler/nouns.txt"
LENGTHS = [2048, 4096]


def made_texts():
    rnd = random.Random(11)
    nouns = [w for w in WORDS.read_text().split("\n") if w.isalpha()]
    word = lambda: rnd.choice(nouns)
    sentence = lambda: rnd.choice([f"The {word()} of the {word()} was a {word()}.", f"Dr. {word()} saw it at 5 p.m. on the {word()}!",
                                   f"Is the {word()}  a {word()} or,\nas one says, a {word()}?"])
    essays = [" ".join(sentence() for _ in range(90)) for _ in range(6)]
    squad = {"data": [{"title": word(), "paragraphs": [
        {"context": f"{sentence()} {sentence()}", "qas": [
            {"question": f"What is the {word()}?", "is_impossible": rnd.random() < 0.1, "answers": [{"text": word()}, {"text": "it's " + word()}][:rnd.randint(1, 2)]}
            for _ in range(17)]} for _ in range(4)]} for _ in range(9)]}
    titled = [[word(), [f"A {word()}.", f" Or {word()}?"]] for _ in range(70)]
    hotpot = [{"question": f"Which {word()} is it?", "answer": word(), "context": rnd.sample(titled, 3)} for _ in range(500)]
    return essays, squad, hotpot


def main():
    os.environ.update(NLTK_DATA=str(FOLDER / "nltk_data"), HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TRANSFORMERS_OFFLINE="1")
    essays, squad, hotpot = made_texts()
    import datasets
    import nltk
    import numpy
    nltk.data.path[:] = [str(FOLDER / "nltk_data")]
    datasets.load_dataset = lambda *names, **more: {"text": essays}
    files = {"dev-v2.0.json": squad, "hotpot_dev_distractor_v1.json": hotpot}
    tokenizer = lambda text: types.SimpleNamespace(input_ids=range(len(text) // 4))
    out = {"lengths": LENGTHS, "essays": essays, "files": {k: json.dumps(v) for k, v in files.items()}, "tasks": {}}
    calls = [("niah_utils", f"niah_{n}") for n in ("single_1", "single_2", "single_3", "multikey_1", "multikey_2", "multikey_3", "multivalue", "multiquery")]
    calls += [("vt_utils", "get_vt_dataset"), ("cwe_utils", "get_cw_dataset"), ("fwe_utils", "fwe_download"), ("qa_utils", "get_squad"),
              ("qa_utils", "get_hotpotqa")]
    for module_name, function in calls:
        module = importlib.reload(importlib.import_module("lm_eval.tasks.ruler." + module_name))
        module.get_tokenizer = lambda *a, **k: tokenizer
        if module_name == "qa_utils":
            module.download_json = lambda url: files[url.rsplit("/", 1)[-1]]
        random.seed(0)
        numpy.random.seed(1234)
        made = getattr(module, function)(max_seq_lengths=LENGTHS, tokenizer="four characters")["test"]
        lines = [json.dumps(d, ensure_ascii=False) for d in made]
        out["tasks"][f"{module_name}.{function}"] = {"documents": len(lines), "first": lines[0][:2000],
                                                     "sha256": hashlib.sha256("\n".join(lines).encode()).hexdigest()}
    rng = random.Random(0)
    orders = []
    for _ in range(5):
        order = list(range(4))
        rng.shuffle(order)
        orders.append(order)
    out["orders"] = orders
    (FOLDER / "ruler.json").write_text(json.dumps(out, ensure_ascii=False, indent=0) + "\n")


if __name__ == "__main__":
    main()
