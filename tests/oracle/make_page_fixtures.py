#!/usr/bin/env python3
"""Writes which paragraphs of pages jusText takes for good ones: tests/fixtures/curate/justext.jsonl.

  python tests/oracle/make_page_fixtures.py docs tests/fixtures/curate [PAGES.html…]

The pages are made of paragraphs of this project's documentation between menus, lists of links, short lines and headings. With PAGES, prints how
many of those jusText cannot read, and writes them as well. Needs: pip install justext==3.0.2 lxml_html_clean
"""
import html
import json
import pathlib
import random
import re
import sys

import justext

STOP = justext.get_stoplist("English")


def good(page):
    return "\n".join(p.text for p in justext.justext(page, STOP) if not p.is_boilerplate)


def link(rng, words):
    return f"<a href='/{rng.randint(0, 99)}'>{html.escape(' '.join(rng.sample(words, rng.randint(1, 5))))}</a>"


def block(rng, paragraphs, words):
    kind = rng.randrange(12)
    text = html.escape(rng.choice(paragraphs))
    few = html.escape(" ".join(rng.sample(words, rng.randint(1, 8))))
    if kind < 3:
        return f"<p>{text}</p>"
    if kind == 3:
        return f"<p>{text[:len(text) // 2]} <b>{few}</b>{link(rng, words)} {text[len(text) // 2:]}</p>"
    if kind == 4:
        return f"<h{rng.randint(1, 4)}>{few}</h{rng.randint(1, 4)}>" if rng.random() < .2 else f"<h2>{few}</h2>"
    if kind == 5:
        return "<ul>" + "".join(f"<li>{link(rng, words)}</li>" for _ in range(rng.randint(2, 6))) + "</ul>"
    if kind == 6:
        return "<ul>" + "".join(f"<li>{few} {i}</li>" for i in range(rng.randint(2, 4))) + "</ul>"
    if kind == 7:
        return f"<div>{few}<br>{text}<br><br>{few}</div>"
    if kind == 8:
        return f"<table><tr><td>{few}</td><td>{text[:80]}</td></tr></table>"
    if kind == 9:
        return f"<div>&copy; {few}</div><form><input value=x>{few}<select><option>one</select></form>"
    if kind == 10:
        return f"<script>var x = '<p>';</script><style>p {{}}</style><div>{text[:rng.randint(20, 260)]}</div>"
    return f"<blockquote>{text}</blockquote>{few}<br>"


def main():
    rng = random.Random(6)
    pages = [p.read_text(encoding="utf-8") for p in sorted(pathlib.Path(sys.argv[1]).glob("*.md"))]
    paragraphs = [re.sub(r"[`|*#\[\]]", "", p) for page in pages for p in page.split("\n\n") if 80 < len(p) < 900 and not p.startswith(("|", "```", "<!"))]
    words = sorted({w for p in paragraphs for w in p.split() if w.isalpha()})
    made = ["<html><head><title>x</title></head><body>" + "\n".join(block(rng, paragraphs, words) for _ in range(rng.randint(3, 14))) + "</body></html>"
            for _ in range(70)]
    for file in sys.argv[3:]:
        made.append(pathlib.Path(file).read_text(encoding="utf-8", errors="replace"))
    with open(pathlib.Path(sys.argv[2]) / "justext.jsonl", "w", encoding="utf-8") as out:
        for page in made:
            try:
                out.write(json.dumps({"html": page, "good": good(page)}, ensure_ascii=False) + "\n")
            except Exception as e:
                print(type(e).__name__, page[:60])


if __name__ == "__main__":
    main()
