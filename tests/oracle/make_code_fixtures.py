#!/usr/bin/env python3
"""Writes tests/fixtures/curate/code_extensions.jsonl: what NeMo Curator's PerExtensionFilter keeps of generated source files.

  python tests/oracle/make_code_fixtures.py WHEEL_FOLDER tests/fixtures/curate

WHEEL_FOLDER: the unpacked wheel of nemo-curator 1.4.0 (pip download --no-deps nemo-curator==1.4.0; unzip); its module is loaded without the rest. Needs: pip install regex
"""
import csv
import importlib.util
import json
import pathlib
import random
import re
import sys
import types

import regex

NAMES = {"c-sharp": "C#", "f-sharp": "F#", "c++": "C++", "visual-basic": "Visual Basic", "protocol-buffer": "Protocol Buffer", "python": "Python", "tex": "TeX", "sql": "SQL"}


def load(folder):
    def stub(name, **members):
        module = types.ModuleType(name)
        module.__dict__.update(members)
        sys.modules[name] = module
    stub("sentencepiece")
    stub("bs4", BeautifulSoup=None)
    stub("comment_parser", comment_parser=None)
    for name in ("nemo_curator", "nemo_curator.stages", "nemo_curator.stages.text", "nemo_curator.stages.text.utils"):
        stub(name)
    stub("nemo_curator.stages.text.filters")
    stub("nemo_curator.stages.text.filters.doc_filter", DocumentFilter=object)
    stub("nemo_curator.stages.text.utils.text_utils", get_comments_and_docstring=None)
    constants = (folder / "nemo_curator/stages/text/utils/constants.py").read_text()
    found = dict(re.findall(r"^(regex_alpha|regex_alphanum) = (.+)$", constants, re.M))
    stub("nemo_curator.stages.text.utils.constants", **{name: eval(code, {"re": re, "regex": regex}) for name, code in found.items()})
    path, = folder.rglob("filters/heuristic/code/code.py")
    spec = importlib.util.spec_from_file_location("code_filters", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.PerExtensionFilter


def text(rng):
    kind = rng.random()
    letters = "abcdefghij  \n" if kind < .3 else "ab  ;{}=+\n\n()" if kind < .6 else "0123456789, ;\n" if kind < .75 else "é日本a \n" if kind < .85 else "x"
    length = rng.choice([1, 5, 40, 200, 1001])
    made = "".join(rng.choice(letters) for _ in range(length))
    return made + rng.choice(["", "\n", "\n" + "z" * rng.choice([1, 500, 1000, 1001])])


def main():
    folder = pathlib.Path(sys.argv[1])
    per_extension = load(folder)
    table, = folder.rglob("code_meta.csv")
    rng = random.Random(3)
    keys = [(r["language"], r["extension"]) for r in csv.DictReader(open(table, encoding="utf-8")) if r["language"]]
    chosen = keys + [k for k in keys if k[1] in ("nb", "sas", "json", "yml", "scm", "y", "sql", "md", "ads", "fp")] * 6 + [("python", "txt"), ("zig", "zzz")]
    with open(pathlib.Path(sys.argv[2]) / "code_extensions.jsonl", "w", encoding="utf-8") as out:
        for language, extension in chosen:
            name = NAMES.get(language, language)
            f = per_extension(language, extension, str(table))
            f._lang = name  # its constructor knows the table's names only
            source = text(rng)
            out.write(json.dumps({"language": name, "path": "src/a" + ("." + extension if extension else ""), "text": source, "keep": f.keep_document(f.score_document(source))}) + "\n")


if __name__ == "__main__":
    main()
