#!/usr/bin/env python3
"""Writes what Resiliparse takes for the main content of pages: tests/fixtures/curate/resiliparse.jsonl.

  python tests/oracle/make_resiliparse_fixtures.py tests/fixtures/curate [--pages N] [--seed N]
  python tests/oracle/make_resiliparse_fixtures.py --compare STOA PAGES.html…

The pages are trees of elements whose names, roles and attributes are those that its rules know, and near misses of them; every word in them is another one, so that the
words which are left say which elements were. --compare runs both on files: letters of the two texts, in order, without single characters between U+2000 and U+FFFF
that are all the text of a node, which Resiliparse takes for signs of an icon font. Needs: pip install resiliparse==2.0.1
"""
import argparse
import html
import json
import pathlib
import random
import re
import subprocess
import tempfile

from resiliparse.extract.html2text import extract_plain_text

FIRST = ["", "", "", "l-", "m_", "wp-", "main-", "site", "page-", "global_", "sticky--", "full", "sub-", "article-", "left-", "right_", "link-", "is-", "visually_",
         "google_", "wide-", "brand-", "mobile-", "my-", "no", "__", "c-", "related-", "user-"]
WORD = ["nav", "navigation", "navbar", "menu", "menu-item", "dropdown", "drop-down", "breadcrumb", "bread_crumbs", "linkbar", "links-list", "link_box", "footer", "copyright",
        "cookie", "consent", "legal", "fcontainer", "header", "sidebar", "side-bars", "sticky-box", "one-third", "search", "search-bar", "searchbox", "skip", "skip-to", "skiplink",
        "scroll-up", "next", "prev", "previous", "permalink", "pagination", "skip-to-main-content", "hidden", "invisible", "collapsed", "display-none", "h-0", "nocontent",
        "expandable", "modal", "popup", "lightbox", "gallery", "carousel", "login", "sign-in", "sign_up", "account", "user-info", "user_actions", "ad", "ads", "ad_3f", "ad_side",
        "advert", "advertisement", "sponsored", "promoted", "paid", "banner", "widebanner", "donate", "social", "share", "sharedaddy", "follow", "email", "like", "feedback",
        "give-feedback", "facebook", "wa", "subscribe", "logo", "print-", "print", "short-view-count", "spinner", "trending", "recommended", "featured", "editors-picks", "related",
        "read-next", "links", "articles", "stories", "article", "entry", "post", "story", "single-post", "content", "main-content", "body", "text", "page", "head", "foot", "right",
        "comments", "reply", "meta", "date", "section", "wrapper", "navy", "textile", "loading", "Nav", "SIDEBAR", "articleBody", "post-content"]
LAST = ["", "", "", "", "-wrap", "-wrapper", "_container", "-bar", "-menu", "-box", "-links", "_icons", "-btn", "-xs", "-2xl", "-window", "--pane", "-post", "article", "-content", "s", "-1"]
TAGS = ["div", "div", "div", "div", "section", "section", "ul", "ol", "p", "p", "span", "a", "article", "header", "footer", "nav", "aside", "main", "h1", "h2", "form", "table", "dl",
        "blockquote", "pre", "figure", "label", "time", "details", "button", "b", "em", "center", "address", "fieldset"]
ROLES = ["main", "navigation", "banner", "contentinfo", "search", "img", "tab", "button", "presentation", "article", "alert", "tooltip"]


class Page:
    def __init__(self, rng):
        self.rng, self.count = rng, 0

    def words(self, most):
        out = []
        for _ in range(self.rng.randint(1, most)):
            self.count += 1
            n, word = self.count, ""
            while n:
                n, digit = divmod(n, 26)
                word += chr(97 + digit)
            out.append("q" + word)
        return " ".join(out) + " "

    def name(self):
        rng = self.rng
        return " ".join(rng.choice(FIRST) + rng.choice(WORD) + rng.choice(LAST) for _ in range(rng.choice([1, 1, 1, 2])))

    def attributes(self):
        rng, out = self.rng, ""
        if rng.random() < .45:
            out += f' class="{self.name()}"'
        if rng.random() < .25:
            out += f' id="{self.name() if rng.random() < .7 else rng.choice(["header", "foot", "page-footer", "right", "site_head", "headers"])}"'
        if rng.random() < .06:
            out += f' role="{rng.choice(ROLES)}"'
        if rng.random() < .1:
            out += " " + rng.choice(['hidden', 'aria-hidden="true"', 'aria-hidden="false"', 'aria-expanded="false"', 'rel="next"', 'rel="author"', 'rel="nofollow"', 'itemprop="url"',
                                     'itemprop="name"', 'data-ad="1"', 'data-text-ad', 'style="display: none"', 'style="color: red;  visibility:hidden ;"', 'style="display:none!important"',
                                     'style="display:block"', 'style="display : none"'])
        return out

    def element(self, depth):
        rng = self.rng
        if depth > 9 or rng.random() < .3:
            return self.words(rng.choice([3, 3, 12, 40]))
        if rng.random() < .15:
            return f'<a href="/x">{self.words(6)}</a> '
        tag = rng.choice(TAGS)
        inside = "".join(self.element(depth + 1) for _ in range(rng.randint(1, 3)))
        if tag in ("ul", "ol"):
            inside = "".join(f"<li{self.attributes()}>{self.element(depth + 2)}</li>" for _ in range(rng.randint(1, 4)))
        elif tag == "table":
            inside = f"<tbody><tr{self.attributes()}><td{self.attributes()}>{inside}</td><td>{self.words(4)}</td></tr></tbody>"
        elif tag == "dl":
            inside = f"<dt{self.attributes()}>{self.words(4)}</dt><dd{self.attributes()}>{inside}</dd>"
        elif tag in ("p", "h1", "h2", "a", "span", "b", "em", "pre", "time", "label", "button"):
            inside = self.words(30)
        return f"<{tag}{self.attributes()}>{inside}</{tag}>" + ("\n" if rng.random() < .5 else "")


def content(page):
    return extract_plain_text(page, main_content=True, alt_texts=False)


def letters(text):
    return re.sub(r"[\W\d_\u2000-\uffff]+", "", text)


def compare(stoa, files):
    texts = [file.read_bytes().decode("utf-8", "replace") for file in files]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "in").mkdir()
        for i, text in enumerate(texts):
            (folder / f"in/{i:07}.html").write_text(text, encoding="utf-8")
        (folder / "p.yaml").write_text("input: {main_text: resiliparse}\nstages: [{pii: {remove_emails: false, remove_ips: false}}]\nallow_empty: true\n")
        subprocess.run([stoa, "data", "run", folder / "p.yaml", "--input", folder / "in", "--output", folder / "out"], check=True, capture_output=True)
        found = {}
        for file in folder.glob("out/kept/*.jsonl"):
            for line in open(file, encoding="utf-8"):
                row = json.loads(line)
                found[int(row["id"].split(".")[0])] = row["text"]
    different = [i for i, text in enumerate(texts) if letters(content(text)) != letters(found.get(i, ""))]
    print(f"{len(texts)} pages, {len(different)} differ")
    for i in different[:20]:
        print(" ", files[i])
    raise SystemExit(bool(different))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output", nargs="*", type=pathlib.Path)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compare")
    a = parser.parse_args()
    if a.compare:
        compare(a.compare, a.output)
    rng = random.Random(a.seed)
    with open(a.output[0] / "resiliparse.jsonl", "w", encoding="utf-8") as out:
        for _ in range(a.pages):
            page = Page(rng)
            body = "".join(page.element(rng.choice([1, 1, 1, 4])) for _ in range(rng.randint(2, 6)))
            text = f"<!DOCTYPE html><html><head><title>t</title></head><body{page.attributes() if rng.random() < .3 else ''}>{body}</body></html>"
            out.write(json.dumps({"html": text, "words": re.findall(r"q[a-z]+", content(text))}) + "\n")


if __name__ == "__main__":
    main()
