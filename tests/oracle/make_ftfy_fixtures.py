#!/usr/bin/env python3
"""Writes tests/fixtures/curate/ftfy.jsonl: what ftfy 6.3.1 makes of texts, by default and with the settings of datatrove's FTFYFormatter.

  python tests/oracle/make_ftfy_fixtures.py DIRECTORY_OF_TEXTS tests/fixtures/curate

Texts are pages of this project and sentences in many languages, decoded by wrong code pages once or twice, in part, with losses; sequences of the
characters that ftfy's heuristic looks at; character references, terminal codes, odd line ends, widths, marks. tests/slow/ftfy_oracle.py compares any number of them.
Run it with Python 3.11 (Unicode 14), as the tables of src/curate were made. Needs: pip install ftfy==6.3.1
"""
import html.entities
import json
import pathlib
import random
import sys

import ftfy
import ftfy.bad_codecs  # registers the code pages
from ftfy import chardata
from ftfy.badness import MOJIBAKE_CATEGORIES

PLAIN = dict(unescape_html="auto", fix_latin_ligatures=False, fix_character_width=False, uncurl_quotes=False, fix_line_breaks=False, normalization=None)

SENTENCES = [
    "L’été dernier, où étiez-vous ? — « À la plage », répondit-elle, 100 € en poche.", "El niño comió piñas en Ávila: ¿por qué no? ¡Qué bien!",
    "Größe und Maß: „schöne Grüße aus Köln“ – 5 °C, §§ 3–4.", "Às vezes não há à disposição; ação, coração, São Paulo, àquele.",
    "Příliš žluťoučký kůň úpěl ďábelské ódy.", "Zażółć gęślą jaźń, łódź.", "Съешь ещё этих мягких французских булок, да выпей чаю.",
    "Жебракують філософи при ґанку церкви, їжак — ось.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία· Ά, έ, ώ.", "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul ığdır.",
    "Īstas zemnieku ķēdes ļoti ātri.", "Árvíztűrő tükörfúrógép, őszi eső.", "نص حكيم له سر قاطع وذو شأن عظيم، ٣٥", "दिल्ली में आज बारिश हुई।", "いろはにほへと　ちりぬるを。ＡＢＣ１２３ｶﾞｷﾞ",
    "我能吞下玻璃而不伤身体。", "다람쥐 헌 쳇바퀴에 타고파.", "สวัสดีครับ ยินดีต้อนรับ", "Tiếng Việt có nhiều dấu: ế, ộ, ữ.", "Emoji 😀👍🏽 and ✔ ✘ ☺ “quotes” ‘single’ … —",
    "The café's naïve résumé — it's “fine”…", "voilà le travail, à la mode", "Hello (ಠ_ಠ) ┌(┌ ᵒ ▽ ᵒ)┐ ¯\\_(ツ)_/¯", "IKEA® Å ™ © ½ × ÷ ± µ ² °C £5 ¥10 ¢", "Ŀ ŉ ǆ ﬁnd ﬂow oﬃce ĳs ﬅ"]
CODECS = chardata.CHARMAP_ENCODINGS
MARKS = sorted({c for chars in MOJIBAKE_CATEGORIES.values() for c in chars if c != "-"}) + [chr(c) for c in range(0x80, 0x100)]
CLUES = sorted({c for chars in chardata.UTF8_CLUES.values() for c in chars if c != "-"})
RULES = list("ÂÃÎÐØÙ×à√≈‚ÄвЂВГРСўŒœΒΓΞΟβā€°²³Šž®°µ» \t\n") + ["a", "Z", "Ã ", "Â ", "â€", "â€™", "ГўВЂВ", "вЂ™", "β€™", "ā€™", "\ufffd", "\x1a", "?", ". ", "í\xa0", "í¾", "À\x80", "À"]
ODD = ["\x1b[36;44m", "\x1b[0m", "\x1b[1;٣m", "\x1b[", "\r\n", "\r", "\u2028", "\u2029", "\x85", "\x0b", "\x0c", "\x7f", "\ufeff", "\u206a", "\ufff9", "\ufffc", "e\u0301", "a\u0323\u0302",
       "a\u0302\u0323", "\u1100\u1161\u11a8", "\uac00\u11a8", "\u0958", "\u0344", "\u212b", "\u2126", "\u0340", "\U0001d15e", "\U0001f1e6", "＜", "＆ａｍｐ；", "￦", "ﾡ", "ｶﾞ", "\u3000", "ŉ", "ﬃ", "Ǆ", "ʼ", "‘", "‛", "„", "‟"]
NAMES = sorted(html.entities.html5)


def reference(rng):
    kind = rng.random()
    if kind < .4:
        name = rng.choice(NAMES).rstrip(";")
        return "&" + rng.choice([name, name, name.upper(), name.lower(), name.capitalize(), "amp;" + name]) + rng.choice(";;;; ")
    n = rng.choice([rng.randint(0, 300), rng.randint(0, 0x11ffff), 0xd83d, 0xfffe, 59, 38, 10**rng.randint(3, 24)])
    return rng.choice([f"&#{n};", f"&#x{n:x};", f"&#X{n:X};", f"&#{n}", f"&#x{n:x}g;", f"&#0{n};", "&#;", "&#x;", "&;", "&lt;", "&amp;lt;"])


def damaged(rng, text):
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3])):
        codec = rng.choice(CODECS)
        data = text.encode("utf-8", "surrogatepass")
        if rng.random() < .2:
            data = "".join(c if ord(c) < 0x10000 else "".join(map(chr, (0xd7c0 + (ord(c) >> 10), 0xdc00 + (ord(c) & 0x3ff)))) for c in text).encode("utf-8", "surrogatepass")
        if rng.random() < .3:
            data = data.replace(b"\xa0", b" ")
        if rng.random() < .1:
            data = data.replace(b"\0", b"\xc0\x80")
        text = data.decode(codec, "replace")
        if rng.random() < .2 and codec.startswith("sloppy"):
            text = data.decode(codec.removeprefix("sloppy-"), "replace")
        if rng.random() < .05:
            text = text.replace("\ufffd", "?")
        if rng.random() < .1 and text:
            i = rng.randrange(len(text))
            text = text[:i] + rng.choice(["", "?", "\ufffd", " ", rng.choice(MARKS)]) + text[i + 1:]
    return text


def piece(rng, texts):
    source = rng.choice(texts)
    i = rng.randrange(max(1, len(source) - 20))
    return source[i:i + rng.randint(2, 120)]


def generate(rng, texts):
    """A text of one to a few lines."""
    kind = rng.random()
    if kind < .1:
        return piece(rng, texts)
    if kind < .4:
        return damaged(rng, piece(rng, texts))
    if kind < .55:
        return "".join(rng.choice([piece(rng, texts), damaged(rng, piece(rng, texts)), " ", "\n"]) for _ in range(rng.randint(2, 5)))
    if kind < .75:
        return "".join(rng.choice(rng.choice([MARKS, CLUES, RULES, list("aZ .\n09")])) for _ in range(rng.randint(1, 9)))
    if kind < .85:
        return "".join(rng.choice([reference(rng), reference(rng), piece(rng, texts)[:8], " ", "<", "\n"]) for _ in range(rng.randint(1, 7)))
    if kind < .95:
        return "".join(rng.choice([rng.choice(ODD), rng.choice(ODD), piece(rng, texts)[:6], rng.choice(MARKS)]) for _ in range(rng.randint(1, 8)))
    return "".join(chr(rng.choice([rng.randint(0x20, 0x2ff), rng.randint(0x300, 0x3ff), rng.randint(0x900, 0xfff), rng.randint(0x1e00, 0x2fff), rng.randint(0x3000, 0xd7ff),
                                   rng.randint(0xf900, 0xffff), rng.randint(0x10000, 0x1ffff)])) for _ in range(rng.randint(1, 9)))


def usable(text):
    return text and not any(0xD800 <= ord(c) < 0xE000 for c in text)


def main():
    pages = [p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(sys.argv[1]).glob("*.md"))]
    rng = random.Random(5)
    texts = SENTENCES * (1 + 2 * len(pages) // len(SENTENCES)) + pages
    chosen = SENTENCES + [t for t in (generate(rng, texts) for _ in range(1200)) if usable(t)]
    with open(pathlib.Path(sys.argv[2]) / "ftfy.jsonl", "w", encoding="utf-8") as out:
        for text in dict.fromkeys(chosen):
            row = {"text": text, "fixed": ftfy.fix_text(text), "plain": ftfy.fix_text(text, **PLAIN)}
            if ftfy.badness.is_bad(text):
                row["bad"] = True
            out.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
