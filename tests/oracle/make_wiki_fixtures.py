#!/usr/bin/env python3
"""Writes tests/fixtures/curate/wiki: pages of Wikipedia's dumps and the words that mwparserfromhell 0.7 leaves of them.

  python tests/oracle/make_wiki_fixtures.py DUMP.xml[.bz2]… OUT_FOLDER [--titles TITLE…]
  python tests/oracle/make_wiki_fixtures.py DUMP.xml[.bz2]… --compare KEPT.jsonl [--show N]

The first form writes pages.xml.bz2 (each page a stream of its own, as in multistream dumps) and words.jsonl; the second compares what `stoa data run` kept of the dumps
with mwparserfromhell word by word. What mwparserfromhell keeps and Stoa does not is taken out first: files, categories, references, tables, links to other
editions, headings with nothing below them. Samples of real dumps come with gensim (pip download gensim; gensim/test/test_data/*wiki*.bz2); their text is
Wikipedia's, by its authors, under CC BY-SA 3.0. Needs: pip install mwparserfromhell==0.7.2
"""
import argparse
import bz2
import difflib
import html
import json
import pathlib
import re

import mwparserfromhell

EDITION = re.compile(r"(?:[a-z]{2,3}(?:-[a-z]+)*|simple)\s*:")


def read(path):
    data = (bz2.open if path.endswith(".bz2") else open)(path, "rb").read()
    return data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8")


def pages(text):
    names = {n.lower() for n in re.findall(r'<namespace key="(?:6|14)"[^>]*>([^<]*)<', text)} | {"file", "image", "category", "картинка"}
    for xml in re.findall(r"(?s)<page>.*?</page>", text):
        title = html.unescape(re.search(r"<title>(.*?)</title>", xml)[1])
        wikitext = html.unescape(re.search(r"(?s)<text[^>]*>(.*?)</text>", xml)[1]) if "</text>" in xml else ""
        plain = "<redirect" not in xml and "<ns>0</ns>" in xml
        yield xml, title, wikitext if plain else None, names


def words(text):
    return re.findall(r"\w+", text)


def expected(wikitext, names):
    code = mwparserfromhell.parse(wikitext)

    def remove(node):
        try:
            code.remove(node)
        except ValueError:
            pass  # inside of one that went
    for link in code.ifilter_wikilinks(recursive=True):
        prefix = str(link.title).split(":")[0].strip().lower().replace("_", " ") if ":" in str(link.title) else ""
        if prefix in names or EDITION.match(str(link.title).strip()):
            remove(link)
    for tag in code.ifilter_tags(matches=lambda t: str(t.tag).lower() in {"ref", "table"}):
        remove(tag)
    for section in reversed(code.get_sections(include_lead=False)):
        text = mwparserfromhell.parse(str(section))
        for heading in text.filter_headings():
            text.remove(heading)
        if not words(text.strip_code()):
            for heading in section.filter_headings():
                remove(heading)
    return words(re.sub(r"__[A-Z]+__", "", code.strip_code(normalize=True, collapse=True)).replace("\xa0", " "))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dumps", nargs="+")
    parser.add_argument("--titles", nargs="*")
    parser.add_argument("--compare")
    parser.add_argument("--show", type=int, default=3)
    a = parser.parse_args()
    if a.compare:
        kept = {row["title"]: row["text"] for row in map(json.loads, open(a.compare, encoding="utf-8"))}
        equal = count = 0
        for dump in a.dumps:
            for _, title, wikitext, names in pages(read(dump)):
                if wikitext is None or title not in kept:
                    continue
                want, got = expected(wikitext, names), words(kept[title])
                count, equal = count + 1, equal + (want == got)
                if want == got:
                    continue
                matcher = difflib.SequenceMatcher(None, got, want, autojunk=False)
                print(f"{title}: {len(got)} words, {len(want)} expected")
                for kind, i, j, k, m in [o for o in matcher.get_opcodes() if o[0] != "equal"][:a.show] if len(got) < 20000 else []:
                    print(f"   {kind}: {' '.join(got[max(0, i - 2):j + 1][:30])!r} instead of {' '.join(want[max(0, k - 2):m + 1][:30])!r}")
        return print(f"{count} pages, {equal} with the same words")
    out = pathlib.Path(a.dumps.pop())
    out.mkdir(parents=True, exist_ok=True)
    texts = [read(dump) for dump in a.dumps]
    with open(out / "pages.xml.bz2", "wb") as file, open(out / "words.jsonl", "w", encoding="utf-8") as rows:
        file.write(bz2.compress(texts[0][:texts[0].index("<page>")].encode()))
        for text in texts:
            for xml, title, wikitext, names in pages(text):
                if title not in a.titles:
                    continue
                file.write(bz2.compress((xml + "\n").encode()))
                if wikitext is not None:
                    rows.write(json.dumps({"title": title, "words": " ".join(expected(wikitext, names))}, ensure_ascii=False) + "\n")
        file.write(bz2.compress(b"</mediawiki>\n"))


if __name__ == "__main__":
    main()
