#!/usr/bin/env python3
"""Writes src/token/unicode_properties_data.cc: what Hugging Face `tokenizers` knows of characters beyond the classes of
unicode_data.cc and bert_unicode_data.cc, asked of the library itself.

  python scripts/make_unicode_properties.py src/token/unicode_properties_data.cc [/usr/lib/x86_64-linux-gnu/libonig.so.5]

  numeric          Digits cuts at it (Rust's char::is_numeric)
  mark             StripAccents removes it
  decomposes       by NFD, by NFKD: its normalizer follows Unicode 9, and leaves what is newer alone
  extends          it belongs to the grapheme before it (Precompiled)
  scripts          UnicodeScripts: runs of equal script, numbered by first appearance; 0 never cuts
  substitutes      characters that its Oniguruma (Unicode 16) puts into another class than an older Oniguruma of Debian
                   does, each with an old character of the same classes and the same length in UTF-8

The older Oniguruma is loaded from the given library: run this where the oldest one is that Stoa is built with (Debian 12:
6.9.8). Needs: pip install tokenizers
"""
import base64
import ctypes
import struct
import sys

import tokenizers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
NUMERIC, MARK, CANONICAL, COMPATIBLE, EXTENDS = 1, 2, 4, 8, 16
CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk",
              "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"]
OTHERS = ["Han", "Hiragana", "Katakana", "Hangul", "Latin", "Cyrillic", "Arabic", "Hebrew", "Thai", "Devanagari", "Greek", "Alphabetic"]
CHUNK = 512


def members_of_library(pattern):
    """The code points that the library's Oniguruma matches by one class."""
    split, found = pre_tokenizers.Split(Regex(pattern), "removed", invert=True), set()
    for i in range(0, len(POINTS), CHUNK):
        for text, _ in split.pre_tokenize_str("".join(map(chr, POINTS[i:i + CHUNK]))):
            found.update(map(ord, text))
    return found


class OldOniguruma:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.utf8 = ctypes.addressof(ctypes.c_char.in_dll(self.lib, "OnigEncodingUTF8"))
        self.syntax = ctypes.c_void_p.in_dll(self.lib, "OnigDefaultSyntax")
        self.lib.onig_initialize((ctypes.c_void_p * 1)(self.utf8), 1)
        self.lib.onig_search.restype = ctypes.c_int

    def members(self, pattern):
        regex, error = ctypes.c_void_p(), ctypes.create_string_buffer(256)
        p = pattern.encode()
        buffer = ctypes.create_string_buffer(p, len(p))
        begin = ctypes.addressof(buffer)
        assert self.lib.onig_new(ctypes.byref(regex), ctypes.c_void_p(begin), ctypes.c_void_p(begin + len(p)), 0,
                                 ctypes.c_void_p(self.utf8), self.syntax, error) == 0, pattern
        found = set()
        for c in POINTS:
            text = chr(c).encode()
            s = ctypes.create_string_buffer(text, len(text))
            a = ctypes.addressof(s)
            if self.lib.onig_match(regex, ctypes.c_void_p(a), ctypes.c_void_p(a + len(text)), ctypes.c_void_p(a), None, 0) > 0:
                found.add(c)
        return found


def substitutes(path):
    old = OldOniguruma(path)
    now, before = [0] * 0x110000, [0] * 0x110000
    for bit, name in enumerate(CATEGORIES + OTHERS):
        for c in members_of_library(rf"\p{{{name}}}"):
            now[c] |= 1 << bit
        for c in old.members(rf"\p{{{name}}}"):
            before[c] |= 1 << bit
    length = lambda c: len(chr(c).encode())
    stand_in, out, lost = {}, {}, []
    for c in POINTS:
        if now[c] == before[c]:
            stand_in.setdefault((now[c], length(c)), c)
    for c in POINTS:
        if now[c] == before[c]:
            continue
        found = stand_in.get((now[c], length(c)))
        if found is None:  # without the scripts
            found = next((s for (bits, n), s in stand_in.items() if n == length(c) and (bits ^ now[c]) & ((1 << len(CATEGORIES)) - 1) == 0), None)
        if found is None:
            lost.append(c)
        else:
            out[c] = found
    print(f"{len(out)} substitutes, {len(lost)} without: {[hex(c) for c in lost[:20]]}", file=sys.stderr)
    return out


def extending():
    """Which characters make one grapheme with an `a` before them: a charsmap that turns the grapheme into X."""
    # A double array with one entry, "a" -> "X": the layout of Darts-clone (unit: offset << 10 | has_leaf << 8 | label).
    size = 256
    units = [0] * size
    root_offset = 1
    units[0] = root_offset << 10
    node = root_offset ^ ord("a")
    leaf = node ^ 2
    units[node] = (2 << 10) | (1 << 8) | ord("a")
    units[leaf] = (1 << 31) | 0
    blob = struct.pack("<I", 4 * size) + struct.pack(f"<{size}I", *units) + b"X\0"
    normalizer = normalizers.Precompiled(blob)
    assert normalizer.normalize_str("bab") == "bXb"
    return {c for c in POINTS if len(chr(c).encode()) < 5 and c > 127 and normalizer.normalize_str("a" + chr(c)) == "X"}


def scripts():
    pre = pre_tokenizers.UnicodeScripts()
    cuts = lambda a, b: len(pre.pre_tokenize_str(chr(a) + chr(b))) == 2
    latin, han = ord("a"), 0x4E00
    runs, known = [], []  # (first, script), a member of every script
    for c in POINTS:
        if not cuts(latin, c) and not cuts(han, c):
            script = 0
        elif runs and runs[-1][1] != 0 and not cuts(known[runs[-1][1] - 1], c):
            continue
        else:
            script = next((i + 1 for i, member in enumerate(known) if not cuts(member, c)), None)
            if script is None:
                known.append(c)
                script = len(known)
        if not runs or runs[-1][1] != script:
            runs.append((c, script))
    return runs


def rows(items, form):
    lines, line = [], ""
    for item in items:
        text = form(item) + ","
        if len(line) + len(text) > 108:
            lines.append(line)
            line = ""
        line += text
    return "\n".join(lines + [line])


def main():
    bits = [0] * 0x110000
    digits, strip = pre_tokenizers.Digits(individual_digits=True), normalizers.StripAccents()
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    for c in POINTS:
        ch = chr(c)
        if len(digits.pre_tokenize_str("a" + ch)) == 2: bits[c] |= NUMERIC
        if strip.normalize_str(ch) == "": bits[c] |= MARK
        if 0xAC00 <= c < 0xD7A4: continue  # Hangul syllables follow a formula
        if nfd.normalize_str(ch) != ch: bits[c] |= CANONICAL
        if nfkd.normalize_str(ch) != ch: bits[c] |= COMPATIBLE
    for c in extending():
        bits[c] |= EXTENDS
    runs = [c for c in range(0x110000) if c == 0 or bits[c] != bits[c - 1]]
    new = substitutes(sys.argv[2] if len(sys.argv) > 2 else "libonig.so.5")
    new_runs = []
    for c in sorted(new):
        if new_runs and new_runs[-1][1] == c - 1 and new_runs[-1][2] == new[c]: new_runs[-1][1] = c
        else: new_runs.append([c, c, new[c]])
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write(f"// Written by scripts/make_unicode_properties.py from tokenizers {tokenizers.__version__}: do not edit.\n"
                  '#include "token/unicode_properties.h"\n\nnamespace stoa::token {\n\n// clang-format off\n')
        for name, items, form in (("unicode_property_runs", runs, lambda c: hex(c << 8 | bits[c])),
                                  ("unicode_script_runs", scripts(), lambda r: hex(r[0] << 8 | r[1]))):
            out.write(f"std::span<const std::uint32_t> {name}() {{\n  static constexpr std::uint32_t kRuns[] = {{\n{rows(items, form)}}};\n"
                      "  return kRuns;\n}\n\n")
        out.write("std::span<const Substitute> unicode_substitutes() {\n  static constexpr Substitute kRuns[] = {\n"
                  + rows(new_runs, lambda r: "{" + ",".join(map(hex, r)) + "}") + "};\n  return kRuns;\n}\n\n")
        out.write("// clang-format on\n}  // namespace stoa::token\n")


main()
