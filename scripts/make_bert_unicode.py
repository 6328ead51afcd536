#!/usr/bin/env python3
"""Writes src/token/bert_unicode_data.cc: what BERT's normalizer and pre-tokenizer of Hugging Face `tokenizers` do to each code
point of Unicode, asked of them one by one.

  python scripts/make_bert_unicode.py src/token/bert_unicode_data.cc

Needs: pip install tokenizers
"""
import sys

from tokenizers import normalizers, pre_tokenizers

REMOVED, SPACE, CUT, PUNCTUATION, CHINESE, MARK = 1, 2, 4, 8, 16, 32


def normalizer(**on):
    options = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**options, **on}).normalize_str


def rows(items, form, per_line):
    text = [form(i) for i in items]
    return ",\n".join("    " + ", ".join(text[i:i + per_line]) for i in range(0, len(text), per_line))


clean, chinese = normalizer(clean_text=True), normalizer(handle_chinese_chars=True)
strip, lower = normalizer(strip_accents=True), normalizer(lowercase=True)
cut = pre_tokenizers.BertPreTokenizer()
bits, stripped, lowered = [0] * 0x110000, {}, {}
for c in range(0x110000):
    if 0xD800 <= c < 0xE000:
        continue
    ch = chr(c)
    after = clean(ch)
    assert after in ("", " ", ch), hex(c)
    words = [w for w, _ in cut.pre_tokenize_str("a" + ch + "b")]
    assert words in (["a", "b"], ["a", ch, "b"], ["a" + ch + "b"]), hex(c)
    bits[c] = ((REMOVED if after == "" else 0) | (SPACE if after == " " else 0) | (CUT if len(words) == 2 else 0) |
               (PUNCTUATION if len(words) == 3 else 0) | (CHINESE if chinese(ch) != ch else 0))
    after = strip(ch)
    if after == "":
        bits[c] |= MARK
    elif after != ch and not 0xAC00 <= c < 0xD7A4:  # Hangul syllables follow a formula
        stripped[c] = after
    after = lower(ch)
    if after != ch:
        lowered[c] = after

runs = [c for c in range(0x110000) if c == 0 or bits[c] != bits[c - 1]]
single = [(c, ord(t)) for c, t in stripped.items() if len(t) == 1]
several = [(c, [ord(x) for x in t]) for c, t in stripped.items() if len(t) > 1]
several_low = [(c, [ord(x) for x in t]) for c, t in lowered.items() if len(t) > 1]
single_low = [(c, ord(t)) for c, t in lowered.items() if len(t) == 1]
assert all(len(t) <= 3 for _, t in several + several_low)


def triple(item):
    c, t = item
    return "{" + ", ".join(hex(x) for x in [c, *t, *[0] * (3 - len(t))]) + "}"


with open(sys.argv[1], "w", encoding="utf-8") as out:
    out.write("// Written by scripts/make_bert_unicode.py: do not edit.\n#include \"token/bert_unicode.h\"\n\n"
              "namespace stoa::token {\n\n// clang-format off\nstd::span<const std::uint32_t> bert_class_runs() {\n"
              "  static constexpr std::uint32_t kRuns[] = {\n")
    out.write(rows(runs, lambda c: hex(c << 8 | bits[c]), 12) + "};\n  return kRuns;\n}\n\n")
    for name, pairs, triples in (("stripped", single, several), ("lowered", single_low, several_low)):
        out.write(f"BertMapping bert_{name}() {{\n  static constexpr std::uint64_t kSingle[] = {{\n")
        out.write(rows(pairs, lambda p: hex(p[0] << 32 | p[1]), 6) + "};\n")
        out.write("  static constexpr BertMapping::Several kSeveral[] = {\n" + rows(triples, triple, 3) + "};\n")
        out.write("  return {kSingle, kSeveral};\n}\n\n")
    out.write("// clang-format on\n}  // namespace stoa::token\n")
