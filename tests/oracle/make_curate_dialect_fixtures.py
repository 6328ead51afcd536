#!/usr/bin/env python3
"""Writes what dolma's taggers, DCLM's RefinedWeb chain and RedPajama-Data's quality signals make of texts: tests/fixtures/curate/dolma.jsonl,
dclm.jsonl and rpv2.jsonl.

  python tests/oracle/make_curate_dialect_fixtures.py DOLMA DCLM REDPAJAMA docs tests/fixtures/curate

DOLMA: the unpacked wheel of dolma 1.2.1 (pip download --no-deps dolma==1.2.1; unzip); DCLM, REDPAJAMA: copies of the repositories mlfoundations/dclm and
togethercomputer/RedPajama-Data. Their modules of filters are loaded without the rest. Needs what make_curate_fixtures.py needs, and pip install uniseg==0.10.1 nltk
"""
import dataclasses
import functools
import importlib.util
import json
import pathlib
import random
import re
import sys
import types

import make_curate_fixtures as base

NAUGHTY = ["harbour", "of the ferry"]
STOP_WORDS = ["the", "of", "and", "to", "a", "in", "is"]


def stub(name, **members):
    module = types.ModuleType(name)
    module.__path__ = []
    module.__dict__.update(members)
    sys.modules[name] = module
    return module


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def dolma(folder):
    """Scores of documents, and the text without lines that have no ending punctuation."""
    for name in ("dolma", "dolma.core", "dolma.taggers"):
        stub(name)

    @dataclasses.dataclass
    class Span:
        start: int
        end: int
        type: str
        score: float = 1.0

    @dataclasses.dataclass
    class Result:
        doc: object
        spans: list
    stub("dolma.core.data_types", Span=Span, DocResult=Result, Document=types.SimpleNamespace)
    stub("dolma.core.registry", TaggerRegistry=types.SimpleNamespace(add=lambda name: lambda cls: cls))
    stub("dolma.core.taggers", BaseTagger=object)
    gopher = load("dolma.taggers.gopher", folder / "dolma/taggers/gopher.py")
    c4 = load("dolma.taggers.c4", folder / "dolma/taggers/c4.py")
    c4.NAUGHTY_WORDS = {w for w in NAUGHTY if " " not in w}
    c4.NAUGHTY_PHRASES = {w for w in NAUGHTY if " " in w}

    def score(text):
        row = {"v1": {}, "v2": {}}
        for version, tagger in (("v1", gopher.GopherTagger()), ("v2", gopher.GopherTaggerV2())):
            for span in tagger.predict(types.SimpleNamespace(text=text)).spans:
                row[version][span.type] = span.score
        spans = c4.FasterC4Tagger().predict(types.SimpleNamespace(text=text)).spans
        count = next(s.score for s in spans if s.type == "line_count")
        row["c4"] = {name: sum(s.type == name for s in spans) / count for name in ("lines_with_no_ending_punctuation", "lines_with_too_few_words")}
        row["c4"].update({s.type: 1.0 for s in spans if s.type.startswith("has_")})
        spans_v1 = c4.C4Tagger().predict(types.SimpleNamespace(text=text)).spans
        row["c4_v1"] = sorted(s.type for s in spans_v1 if s.type.startswith("has_"))
        cut, at = "", 0
        for s in sorted((s for s in spans if s.type == "lines_with_no_ending_punctuation"), key=lambda s: s.start):
            cut += text[at:s.start]
            at = s.end
        row["left"] = cut + text[at:]
        return row
    return score


def dclm(folder):
    """The first step of the chain that drops a page, and the text that is left."""
    stub("fasttext", FastText=types.SimpleNamespace(tokenize=lambda text: [t for t in re.split("[ \n\r\t\v\f\0]", text) if t]))
    stub("unidecode", unidecode=None)
    stub("transformers", AutoTokenizer=None)
    stub("retrie")
    stub("retrie.retrie", Blacklist=None)
    stub("bs4", BeautifulSoup=None)
    for name in ("baselines", "baselines.mappers", "core"):
        stub(name)
    stub("core.factory_utils", factory_function=lambda f: f)
    stub("core.constants", CONTENT="text", URL="url")
    load("baselines.mappers.core_utils", folder / "baselines/mappers/core_utils.py")
    f = load("content_filters", folder / "baselines/mappers/filters/content_filters.py")
    m = load("modifiers", folder / "baselines/mappers/modifiers.py")
    count = sys.modules["baselines.mappers.core_utils"].split_words
    buttons = functools.partial(m.substring_line_modifier, max_length=10, remove_substring_only=True)

    def repetition(granularity, limit, characters=True):
        return lambda page: f.repetition_filter(page, granularity, limit, count_characters=characters)

    def count_before(page):
        page["before"] = len(count(page["text"], ignore_punctuation=True))
        return [page] if page["before"] else []
    steps = [
        ("", m.newline_removal_modifier(max_consecutive=2)),
        ("page_length", functools.partial(f.page_length_filter, length_type="word", min_length=50, max_length=100000, ignore_punctuation=True)),
        ("word_length", functools.partial(f.word_length_filter, min_length=3, max_length=10)),
        ("symbol_ratio", functools.partial(f.symbol_ratio_filter, max_symbol_to_word_ratio=.1)),
        ("bullet_count", functools.partial(f.bullet_count_filter, max_bullet_start_ratio=.9)),
        ("ellipsis_count", functools.partial(f.ellipsis_count_filter, max_ellipsis_end_ratio=.3)),
        ("alphabetic_word_ratio", functools.partial(f.alphabetic_word_ratio_filter, max_ratio=.2)),
        ("stop_word", functools.partial(f.stop_word_filter, count_unique=False, min_stop_word=2)),
        ("repeated_lines", repetition("line", .3, False)), ("repeated_paragraphs", repetition("paragraph", .3, False)),
        ("repeated_line_characters", repetition("line", .2)), ("repeated_paragraph_characters", repetition("paragraph", .2))]
    steps += [(f"most_common_{n}_gram", repetition(n, limit)) for n, limit in ((2, .2), (3, .18), (4, .16))]
    steps += [(f"repeated_{n}_grams", repetition(n, limit)) for n, limit in zip(range(5, 11), (.15, .14, .13, .12, .11, .10))]
    steps += [("empty", count_before)]
    steps += [("no_lines", step) for step in (
        functools.partial(m.uppercase_ratio_line_modifier, max_ratio=.5), functools.partial(m.numeric_ratio_line_modifier, max_ratio=.999999),
        m.counter_line_modifier(), functools.partial(m.line_length_modifier, min_length=2), buttons(banlist="items in cart"),
        buttons(banlist="Read more...", location="suffix"), buttons(banlist="Sign-in", location="prefix"))]
    steps += [("word_removal_ratio", functools.partial(f.word_removal_ratio_filter, prev_word_count_key="before", max_removed_ratio=.05))]

    def decide(text):
        page = {"text": text}
        for name, step in steps:
            pages = step(page)
            if not pages:
                return {"rule": name}
            page = pages[0]
        return {"rule": "", "left": page["text"]}
    return decide


def redpajama(folder):
    """Signals of documents, those of lines as means."""
    root = folder / "app/src"
    stub("msgspec", Struct=object)
    sys.path.insert(0, str(root))
    sys.modules.pop("core.constants", None)  # DCLM's
    for name in ("core", "core.quality_signals", "core.quality_signals.utils", "utilities", "utilities.register"):
        stub(name).__path__ = [str(root / name.replace(".", "/"))]
    names = dict(signal_schema=None, get_callables_from_module=None)
    stub("utilities.register.registry_utils", __all__=list(names), **names)

    @dataclasses.dataclass
    class TextSlice:
        text: str
        start: int
        end: int

        def __len__(self):
            return len(self.text)

        def __getitem__(self, at):
            return (self.text, self.start, self.end)[at]
    stub("core.data_types", TextSlice=TextSlice, SignalType=list, ScoreType=tuple)
    import core.quality_signals.content as content
    import core.quality_signals.lines as lines
    import core.quality_signals.natural_language as language
    import core.quality_signals.repetitions as repetitions
    import core.document
    from core.document import Document
    # NLTK as it was then: its newer versions match with another module, whose \w is another set of characters.
    core.document._word_tokenizer = types.SimpleNamespace(tokenize=re.compile(r"\w+|[^\w\s]+").findall)
    content.get_stop_words = lambda language: set(STOP_WORDS)
    content.load_bad_words = lambda **_: set(NAUGHTY)
    keys = dict(language="en", bad_urls_dir="", bad_words_dir="")
    signals = [content.RPS_Doc_LDNOOBW_Words(**keys), content.RPS_Doc_Lorem_Ipsum(), content.RPS_Doc_Curly_Bracket(), content.RPS_Doc_Stop_Word_Fraction(**keys)]
    for module in (language, repetitions):
        signals += [c() for n, c in vars(module).items() if n.startswith("RPS_Doc")]
    of_lines = [c() for n, c in vars(lines).items() if n.startswith("RPS_Lines")]

    def score(text):
        document = Document(text, domain=None)
        if not document.normalized_words or not document.raw_words:
            return {}
        row = {type(s).__name__.lower(): s(document)[0][2] for s in signals}
        for s in of_lines:
            scores = [x[2] for x in s(document)]
            row[type(s).__name__.lower()] = sum(scores) / len(scores)
        return row
    return score


def texts(docs):
    rng = random.Random(28)
    pages = [p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(docs).glob("*.md"))]
    made = [base.mutate(rng, p[2000:3500], 1500) for p in pages[::2]] + [base.generate(rng, 70) for _ in range(25)]
    paragraphs = [p for page in pages for p in page.split("\n\n") if 200 < len(p) < 700 and "|" not in p]
    junk = ["3 likes", "• 1,024K views!", "12.5 followers", "two items in cart", "Read more...", "and so on Read more ..", "Sign-in here", "THIS IS LOUD", "12345", "word", "",
            "- one", "* two", "…", "It goes on…", "and on...", "Harbour of the ferry", "lorem ipsum dolor.", "var x = {javascript};", "Σ ΑΣ é é ½ ²", "naïve café – “quote”", "‣ point", "1,5 x_y a.b can't 3.14"]
    for _ in range(60):
        pieces = rng.sample(paragraphs, 3) + rng.choices(junk, k=rng.randint(0, 8))
        rng.shuffle(pieces)
        made.append(rng.choice(["\n", "\n\n", "\n\n\n\n"]).join(pieces))
    for _ in range(15):
        made.append("\n".join(rng.choice(paragraphs[:3] + junk) for _ in range(rng.randint(2, 30))))
    made += ["", " \n ", "# # # ...", "\n\nab\n\n\nab\n", "a b c d e f g h i j k l m n o p", "x" * 5000]
    return [t.replace("\0", "") for t in made]


def main():
    tools = dict(zip(("dolma", "dclm", "rpv2"), (dolma(pathlib.Path(sys.argv[1])), dclm(pathlib.Path(sys.argv[2])), redpajama(pathlib.Path(sys.argv[3])))))
    out = pathlib.Path(sys.argv[5])
    for name, tool in tools.items():
        with open(out / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for text in texts(sys.argv[4]):
                file.write(json.dumps({"text": text, **tool(text)}, ensure_ascii=False) + "\n")
    from uniseg.wordbreak import words
    rng, alphabet = random.Random(3), "ab1.,'’\"_ \n\r\u0301\u200dא\u05f4カーｱ中👩🇩🇪👍🏽½:\u00ad\u2028é"
    with open(out / "word_breaks.jsonl", "w", encoding="utf-8") as file:
        for _ in range(300):
            text = "".join(rng.choices(alphabet, k=rng.randint(1, 30)))
            file.write(json.dumps({"text": text, "words": list(words(text))}, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
