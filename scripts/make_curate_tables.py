#!/usr/bin/env python3
"""Writes what src/curate knows of characters and of English words, asked of the libraries whose decisions it repeats:

  python scripts/make_curate_tables.py src/curate

  text/character_data.cc     classes of characters, lower case, canonical decomposition without nonspacing marks: Python's own
                        (Unicode of the running Python), and the sets of spaCy's English tokenizer and of datatrove's filters
  text/english_word_data.cc  the exceptions of spaCy's English tokenizer, each with where it is cut
  text/word_break_data.cc    what UAX #29 needs to know of characters to find words (Unicode 16, as uniseg knows it)
  html/entity_data.cc        the named references of HTML5 that Python knows
  html/stop_words.cc         the English stop words of jusText

The Unicode version decides which characters are letters: run this with Python 3.11 (Unicode 14), as the committed tables were.
Needs: pip install datatrove==0.10.1 spacy==3.8.18 regex justext==3.0.2 uniseg==0.10.1
"""
import html.entities
import importlib.resources
import pathlib
import re
import sys
import unicodedata

import regex
import spacy
import uniseg.emoji
import uniseg.wordbreak
from character_tables import FOOTER, POINTS, classes, lines, mapping, octal
from datatrove.utils.text import PUNCTUATION, TERMINAL_PUNCTUATION
from spacy.lang.char_classes import ALPHA, ALPHA_LOWER, ALPHA_UPPER, CONCAT_QUOTES, CURRENCY, LIST_ICONS, LIST_PUNCT, LIST_QUOTES, PUNCT, UNITS
from spacy.pipeline import Sentencizer



def members(pattern, module=re):
    compiled = module.compile(pattern)
    return {c for c in POINTS if compiled.fullmatch(chr(c))}


def singles(pieces):
    """The pieces of a list of patterns that are one character, as code points."""
    plain = [p[1:] if len(p) == 2 and p[0] == "\\" else p for p in pieces]
    return {ord(p) for p in plain if len(p) == 1}


icons = members(LIST_ICONS[0])
common = singles(LIST_PUNCT) | singles(LIST_QUOTES) | icons | {ord(c) for c in "—–"}
SETS = [  # in the order of the bits of CharacterClass (character.h)
    {c for c in POINTS if chr(c).isspace()},
    {c for c in POINTS if chr(c).isalpha()},
    {c for c in POINTS if unicodedata.category(chr(c)).startswith("P")},
    members(r"\p{Nd}", regex),
    members(r"\d"),
    members(r"\w"),
    members(f"[{ALPHA}]"),
    members(f"[{ALPHA_LOWER}]"),
    members(f"[{ALPHA_UPPER}]"),
    members(f"[{CONCAT_QUOTES}]"),
    common | {ord(c) for c in "§%="} | {ord(c) for c in "$£€¥฿₽﷼₴"} | set(range(0x20A0, 0x20C0)),
    common,
    icons | {ord("…")},
    members(r"[0-9{al}{e}{p}(?:{q})]".format(al=ALPHA_LOWER, e=r"%²\-\+", q=CONCAT_QUOTES, p=PUNCT)),
    {ord(c) for c in PUNCTUATION},
    {ord(c) for c in TERMINAL_PUNCTUATION},
    {c for c in POINTS if unicodedata.category(chr(c)) == "Mn"},
    {ord(c) for c in Sentencizer.default_punct_chars},
    # What decides the form of a sigma: cased characters, and those that it looks past, asked of Python itself.
    {c for c in POINTS if ("aΣ" + chr(c)).lower()[1] == "σ"},
    {c for c in POINTS if ("aΣ" + chr(c) + "a").lower()[1] == "σ" and not ("aΣ" + chr(c)).lower()[1] == "σ"},
    members("[[:alpha:]]", regex),
    {c for c in POINTS if chr(c).isnumeric()},
    {c for c in POINTS if chr(c).isdigit()},
    {c for c in POINTS if chr(c).isupper()},
    {c for c in POINTS if chr(c).islower() or unicodedata.category(chr(c)) == "Lt"},
    members(r"\p{Han}", regex),
    members(r"[\p{L}\p{M}]", regex),
    members(r"\w", regex),
]


def check():
    """The hand-written parts of english_words.cc assume these."""
    t = spacy.blank("en").tokenizer
    for c in POINTS:
        s = chr(c)
        if s.isspace():
            continue
        assert (t.find_prefix(s + "a") == 1) == (c in SETS[10] or c == ord("+")), hex(c)
        assert (t.find_suffix("a" + s) == 1) == (c in SETS[11] or (c == ord("."))), hex(c)
        assert bool(t.find_infix("a" + s + " ")) == (c in SETS[12]), hex(c)


def changed(f):
    """The characters that f changes, and what they become; Hangul syllables are computed."""
    return [(c, to) for c in POINTS if not 0xAC00 <= c < 0xD7A4 and (to := f(chr(c))) != chr(c)]


def stripped(s):
    return "".join(x for x in unicodedata.normalize("NFD", s) if unicodedata.category(x) != "Mn")


def write_characters(path):
    rows, runs = classes(SETS)
    path.write_text(f"""// Written by scripts/make_curate_tables.py from Python {sys.version.split()[0]} (Unicode {unicodedata.unidata_version}), spaCy 3.8.18, datatrove 0.10.1: do not edit.
#include "curate/text/character.h"

namespace stoa::curate {{

// clang-format off
std::span<const std::uint32_t> character_class_bits() {{
  static constexpr std::uint32_t kBits[] = {{
{lines([hex(r) for r in rows])}
  }};
  return kBits;
}}
std::span<const std::uint32_t> character_class_runs() {{
  static constexpr std::uint32_t kRuns[] = {{
{lines([hex(r) for r in runs])}
  }};
  return kRuns;
}}
{mapping("lower_mapping", changed(str.lower))}{mapping("stripped_mapping", changed(stripped))}// clang-format on

{FOOTER}""", encoding="utf-8")


def write_word_breaks(path):
    names = list(uniseg.wordbreak.WordBreak)  # in the order of WordBreak (word_break.cc)
    runs, last = [], None
    for c in range(0x110000):
        value = names.index(uniseg.wordbreak.word_break(chr(c))) | (0x80 if uniseg.emoji.extended_pictographic(chr(c)) else 0)
        if value != last:
            runs.append(c << 8 | value)
            last = value
    path.write_text(f"""// Written by scripts/make_curate_tables.py from uniseg 0.10.1 (Unicode 16): do not edit.
#include "curate/text/word_break.h"

namespace stoa::curate {{

// clang-format off
std::span<const std::uint32_t> word_break_runs() {{
  static constexpr std::uint32_t kRuns[] = {{
{lines([hex(r) for r in runs])}
  }};
  return kRuns;
}}
// clang-format on

{FOOTER}""", encoding="utf-8")


def quoted(s):
    out = ""
    for c in s:
        if c in '"\\':
            out += "\\" + c
        elif c in "\n\t":
            out += {"\n": "\\n", "\t": "\\t"}[c]
        else:
            out += c
    return '"' + out.replace("??", "?\\?") + '"'


def write_words(path):
    rules = spacy.blank("en").tokenizer.rules
    entries = []
    for word in sorted(rules, key=lambda w: w.encode()):
        if word.isspace():
            continue  # they stand for themselves
        parts = [p[65] if 65 in p else p["orth"] for p in rules[word]]
        assert "".join(parts) == word and not any(c.isspace() for c in word)
        entries.append(quoted("\t".join(parts)))
    units = [quoted(u) for u in UNITS.split("|")]
    currencies = [quoted(c.replace("\\", "")) for c in dict.fromkeys(CURRENCY.split("|"))]
    path.write_text(f"""// Written by scripts/make_curate_tables.py from spaCy 3.8.18 (MIT licence): do not edit.
#include "curate/text/english_rules.h"

namespace stoa::curate {{

// clang-format off
std::span<const std::string_view> english_exceptions() {{
  static constexpr std::string_view kExceptions[] = {{
{lines(entries)}
  }};
  return kExceptions;
}}
std::span<const std::string_view> english_units() {{
  static constexpr std::string_view kUnits[] = {{
{lines(units)}
  }};
  return kUnits;
}}
std::span<const std::string_view> english_currencies() {{
  static constexpr std::string_view kCurrencies[] = {{
{lines(currencies)}
  }};
  return kCurrencies;
}}
// clang-format on

{FOOTER}""", encoding="utf-8")


def write_entities(path):
    entries = [f'{{"{octal(name)}", "{octal(value)}"}}' for name, value in sorted(html.entities.html5.items())]
    path.write_text(f"""// Written by scripts/make_curate_tables.py from Python's html.entities: do not edit.
#include "curate/html/entities.h"

namespace stoa::curate {{

// clang-format off
std::span<const std::pair<std::string_view, std::string_view>> entity_names() {{
  static constexpr std::pair<std::string_view, std::string_view> kNames[] = {{
{lines(entries)}
  }};
  return kNames;
}}
// clang-format on

{FOOTER}""", encoding="utf-8")


def write_stop_words(path):
    words = importlib.resources.files("justext").joinpath("stoplists/English.txt").read_text(encoding="utf-8").split()
    rows = [f'"{octal(w)}\\n"' for w in words]
    path.write_text(f"""// Written by scripts/make_curate_tables.py from jusText 3.0.2 (BSD licence of two clauses): do not edit.
#include "curate/html/stop_words.h"

namespace stoa::curate {{

// clang-format off
std::string_view english_stop_words() {{
  return
{lines(rows).replace(",", "")};
}}
// clang-format on

{FOOTER}""", encoding="utf-8")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    check()
    write_characters(folder / "text/character_data.cc")
    write_word_breaks(folder / "text/word_break_data.cc")
    write_words(folder / "text/english_word_data.cc")
    write_entities(folder / "html/entity_data.cc")
    write_stop_words(folder / "html/stop_words.cc")
