#!/usr/bin/env python3
"""Writes src/token/unicode_data.cc: the character classes that Hugging Face tokenizers sees.

  python scripts/make_unicode_classes.py > src/token/unicode_data.cc

The classes are asked from `tokenizers` itself, code point by code point, because its regular expressions, its word
boundary of added tokens and its NFC follow three different Unicode versions:
  \\p{L} \\p{N} \\s  through a Split pre-tokenizer (Oniguruma),
  \\w               through an added token with single_word (Rust `regex`),
  NFC              which combining characters its normalizer knows. A character that today's Unicode calls combining
                   and the normalizer does not is a barrier: it stays where it is.
Needs: pip install tokenizers regex
"""
import unicodedata

import regex
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
LETTER, NUMBER, SPACE, NEWLINE = 1, 2, 3, 4
WORD, COMBINES, BARRIER = 8, 16, 32


def members(pattern, beside):
    split = pre_tokenizers.Split(Regex(pattern), "isolated")
    return {c for c in POINTS if len(split.pre_tokenize_str(beside + chr(c) + beside)) == 3}


def word_characters():
    tok = Tokenizer(models.BPE(vocab={"X": 0}, merges=[]))
    tok.add_tokens([AddedToken("XX", single_word=True)])
    found = tok.token_to_id("XX")
    return {c for c in POINTS if found not in tok.encode(chr(c) + "XX").ids}


def combining():
    nfc = normalizers.NFC()
    reorders = lambda c: any(nfc.normalize_str(s) != s for s in ("q" + chr(c) + "\u0334", "q\u0345" + chr(c)))
    seconds = set()
    for c in POINTS:
        parts = unicodedata.decomposition(chr(c))
        if parts and not parts.startswith("<") and len(parts.split()) == 2:
            if nfc.normalize_str("".join(chr(int(p, 16)) for p in parts.split())) == chr(c):
                seconds.add(int(parts.split()[1], 16))
    seconds |= set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))  # Hangul vowels and final consonants
    nonzero = regex.compile(r"\P{ccc=0}")
    not_yes = regex.compile(r"[\p{NFC_QC=M}\p{NFC_QC=N}]")
    flagged, barrier = set(), set()
    for c in POINTS:
        if nonzero.match(chr(c)):
            (flagged if reorders(c) else barrier).add(c)
        elif not_yes.match(chr(c)):
            known = c in seconds or nfc.normalize_str(chr(c)) != chr(c)
            (flagged if known else barrier).add(c)
    return flagged, barrier


def main():
    table = bytearray(0x110000)
    for value, pattern, beside in ((LETTER, r"\p{L}", "!"), (NUMBER, r"\p{N}", "!"), (SPACE, r"\s", "!")):
        for c in members(pattern, beside):
            table[c] = value
    for c in (10, 13):
        table[c] = NEWLINE
    for c in word_characters():
        table[c] |= WORD
    flagged, barrier = combining()
    for c in flagged:
        table[c] |= COMBINES
    for c in barrier:
        table[c] |= BARRIER
    runs, previous = [], None
    for c in range(0x110000):
        if table[c] != previous:
            runs.append((c, table[c]))
            previous = table[c]
    print(f"// Written by scripts/make_unicode_classes.py from tokenizers {tokenizers.__version__}: do not edit.")
    print("// \\p{L}, \\p{N}: Unicode 16.0 (Oniguruma); one entry per run of equal classes: first code point << 8 | class.")
    print('#include "token/unicode.h"\n\nnamespace stoa::token {\nnamespace {\n')
    print("// clang-format off\nconstexpr std::uint32_t kRuns[] = {")
    line = ""
    for c, value in runs:
        item = f"0x{c << 8 | value:x},"
        if len(line) + len(item) > 108:
            print(line)
            line = ""
        line += item
    print(line + "\n};\n// clang-format on\n\n}  // namespace\n")
    print("std::span<const std::uint32_t> unicode_class_runs() { return kRuns; }\n\n}  // namespace stoa::token")


main()
