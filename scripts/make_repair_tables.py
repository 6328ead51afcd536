#!/usr/bin/env python3
"""Writes what src/curate/text knows of characters in damaged text, asked of ftfy and of Python:

  python scripts/make_repair_tables.py src/curate/text

  repair_data.cc      ftfy's categories of characters that occur in mojibake, the code pages that it tries, Latin ligatures, half and full
                      width, and the names of character references in capitals
  canonical_data.cc   canonical decompositions and combining classes, for normal form C

Run this with Python 3.11 (Unicode 14), as for make_curate_tables.py. Needs: pip install ftfy==6.3.1
"""
import html.entities
import pathlib
import re
import sys
import unicodedata

import ftfy
import ftfy.bad_codecs  # registers the code pages
from character_tables import FOOTER, POINTS, classes, lines, mapping, octal
from ftfy import chardata
from ftfy.badness import MOJIBAKE_CATEGORIES

CATEGORIES = ["common", "bad", "law", "currency", "start_punctuation", "end_punctuation", "numeric", "kaomoji", "upper_accented", "lower_accented",
              "upper_common", "lower_common", "box"]
CLUES = ["utf8_first_of_2", "utf8_first_of_3", "utf8_first_of_4", "utf8_continuation", "utf8_continuation_strict"]
assert set(MOJIBAKE_CATEGORIES) == set(CATEGORIES) | {"c1"} and set(chardata.UTF8_CLUES) == set(CLUES)
assert len(chardata.CHARMAP_ENCODINGS) == 10
SECONDS = {d.split()[1] for d in map(unicodedata.decomposition, map(chr, POINTS)) if len(d.split()) == 2 and d[0] != "<"}


def members(characters):
    compiled = re.compile(f"[{characters}]")
    return {c for c in POINTS if compiled.match(chr(c))}


def changed(c):
    s = chr(c)
    return (s.translate(chardata.LIGATURES) != s or s.translate(chardata.WIDTH_MAP) != s or s.translate(chardata.CONTROL_CHARS) != s
            or ftfy.fixes.uncurl_quotes(s) != s or ftfy.fixes.fix_line_breaks(s) != s or ftfy.fixes.fix_c1_controls(s) != s)


def may_change_in_nfc(c):
    s = chr(c)
    return (unicodedata.combining(s) != 0 or unicodedata.normalize("NFC", s) != s or f"{c:04X}" in SECONDS or 0x1161 <= c <= 0x1175
            or 0x11A8 <= c <= 0x11C2)


def sets():  # in the order of the bits of RepairClass (mojibake.h)
    yield from (members(MOJIBAKE_CATEGORIES[name]) for name in CATEGORIES)
    yield from (members(chardata.UTF8_CLUES[name]) for name in CLUES)
    yield from ({c for c in POINTS if chardata.possible_encoding(chr(c), name)} for name in chardata.CHARMAP_ENCODINGS)
    yield {c for c in POINTS if changed(c)}
    yield {c for c in POINTS if may_change_in_nfc(c)}


def table(declaration, type_, values):
    return f"""{declaration} {{
  static constexpr {type_} kTable[] = {{
{lines(values)}
  }};
  return kTable;
}}
"""


def code_pages():
    for name in chardata.CHARMAP_ENCODINGS:
        decoded = bytes(range(256)).decode(name)
        assert all(c.encode(name)[0] == b for b, c in enumerate(decoded)), name
        yield from (hex(ord(c)) for c in decoded[128:])


def write_repair(path):
    rows, runs = classes(list(sets()))
    shouted = {name[1:]: to for name, to in chardata.HTML_ENTITIES.items() if html.entities.html5.get(name[1:]) != to}
    path.write_text(f"""// Written by scripts/make_repair_tables.py from ftfy {ftfy.__version__} (Apache licence 2.0): do not edit.
#include "curate/text/mojibake.h"

namespace stoa::curate {{

// clang-format off
{table("std::span<const std::uint32_t> repair_class_bits()", "std::uint32_t", map(hex, rows))}\
{table("std::span<const std::uint32_t> repair_class_runs()", "std::uint32_t", map(hex, runs))}\
{table("std::span<const std::uint16_t> code_pages()", "std::uint16_t", code_pages())}\
{mapping("ligature_mapping", sorted(chardata.LIGATURES.items()))}{mapping("width_mapping", sorted(chardata.WIDTH_MAP.items()))}\
{table("std::span<const std::pair<std::string_view, std::string_view>> shouted_entity_names()",
       "std::pair<std::string_view, std::string_view>", [f'{{"{octal(n)}", "{octal(t)}"}}' for n, t in sorted(shouted.items())])}\
// clang-format on

{FOOTER}""", encoding="utf-8")


def write_canonical(path):
    rows, runs, last = [], [], None
    for c in range(0x110000):
        combining = unicodedata.combining(chr(c))
        if combining != last:
            last = combining
            runs.append(hex(c << 8 | combining))
        parts = unicodedata.decomposition(chr(c)).split()
        if not parts or parts[0][0] == "<":
            continue
        assert len(parts) <= 2
        first, second = [int(p, 16) for p in parts] + [0] * (2 - len(parts))
        composes = unicodedata.normalize("NFC", chr(c)) == chr(c)
        assert not composes or second
        rows.append("{%#x,%#x,%#x,%d}" % (c, first, second, composes))
    path.write_text(f"""// Written by scripts/make_repair_tables.py from Python {sys.version.split()[0]} (Unicode {unicodedata.unidata_version}): do not edit.
#include "curate/text/canonical_form.h"

namespace stoa::curate {{

// clang-format off
{table("std::span<const CanonicalPair> canonical_pairs()", "CanonicalPair", rows)}\
{table("std::span<const std::uint32_t> combining_class_runs()", "std::uint32_t", runs)}\
// clang-format on

{FOOTER}""", encoding="utf-8")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    write_repair(folder / "repair_data.cc")
    write_canonical(folder / "canonical_data.cc")
