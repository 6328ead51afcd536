#!/usr/bin/env python3
"""Main text of pages by Stoa, Resiliparse, jusText and trafilatura: F1 of words against the truth, and CPU time, alternating.

  apt-get download python3.11-doc sphinx-doc; for d in *.deb; do dpkg -x $d unpacked; done
  python bench/data/extraction.py STOA unpacked [--pages N] [--rounds N] [--output RESULT.json]

Half of the pages are those of the packages, whose sources in reStructuredText (html/_sources) without their markup are the truth; that markup is
removed by a few rules, so no extractor reaches 1. The other half is made: headings, paragraphs, lists and code from those sources, which are the truth, inside
pages of six kinds with menus, link lists, teasers, comments, cookie notices and footers. A page's score is that of its words as a multiset.
Stoa's time is that of its whole program reading files and writing JSON lines; that of the others is the call alone, on text in memory.
Needs: pip install resiliparse==2.0.1 justext==3.0.2 lxml_html_clean trafilatura==2.3.1
"""
import argparse
import collections
import html
import json
import pathlib
import random
import re
import resource
import statistics
import subprocess
import tempfile
import time

RULES = ["stoa", "justext", "resiliparse", "union", "all"]


def plain(rst):
    """The text of reStructuredText without most of its markup."""
    rst = re.sub(r"(?ms)^\.\. (?:only|ifconfig|toctree|raw|highlight|currentmodule|sectionauthor|moduleauthor|index|include|testsetup|image|figure)::.*?(?=^\S|\Z)", "", rst)
    rst = re.sub(r"(?m)^\.\. _[^\n]*:.*$", "", rst)
    rst = re.sub(r"(?m)^\s*\.\. [\w:-]+:: ?", "", rst)
    rst = re.sub(r"(?ms)^\.\. (?!\[).*?(?=^\S|\Z)", "", rst)
    rst = re.sub(r"(?m)^\s*:(?:noindex|maxdepth|platform|synopsis|module|deprecated|name|emphasize-lines|linenos|caption|hidden)\b.*$", "", rst)
    rst = re.sub(r"(?m)^([=\-~^\"'*#+`.:])\1{2,}\s*$", "", rst)
    rst = re.sub(r"(?m)^[=\s-]{5,}$", "", rst)
    rst = re.sub(r":[\w:+-]+:`~?!?([^`<]*?)\s*(?:<[^`>]*>)?`", r"\1", rst)
    rst = re.sub(r"`([^`<]*?)\s*<[^`>]*>`__?", r"\1", rst)
    return re.sub(r"[`*|\\]|::(?=\s)", " ", rst)


def words(text):
    return collections.Counter(re.findall(r"\w+", text.lower()))


def score(found, truth):
    a, b = words(found), words(truth)
    common = sum((a & b).values())
    if not common:
        return 0.0, 0.0, 0.0
    p, r = common / sum(a.values()), common / sum(b.values())
    return p, r, 2 * p * r / (p + r)


def links(rng, vocabulary, n):
    return [f'<a href="/{rng.randrange(999)}">{" ".join(rng.choices(vocabulary, k=rng.randint(1, 6)))}</a>' for _ in range(n)]


def made(rng, sources, vocabulary):
    blocks = [b.strip() for b in re.split(r"\n\s*\n", rng.choice(sources)) if 20 < len(b.strip()) < 1500]
    if len(blocks) < 6:
        return None
    begin = rng.randrange(max(1, len(blocks) - 30))
    body, truth = [], []
    for b in blocks[begin:begin + rng.randint(6, 30)]:
        text = " ".join(b.split())
        kind = rng.random()
        if kind < .1:
            body.append(f"<h{rng.randint(2, 4)}>{html.escape(text[:60])}</h2>")
            text = text[:60]
        elif kind < .2:
            items = [i for i in re.split(r"(?<=[.;]) ", text) if i]
            body.append("<ul>" + "".join(f"<li>{html.escape(i)}</li>" for i in items) + "</ul>")
        elif kind < .3:
            body.append(f"<pre>{html.escape(b)}</pre>")
        elif kind < .6:
            cut = text.find(" ", len(text) // 2)
            body.append(f"<p>{html.escape(text[:cut])} <a href='/x'>{html.escape(text[cut:cut + 12])}</a>{html.escape(text[cut + 12:])}</p>")
        else:
            body.append(f"<p>{html.escape(text)}</p>")
        truth.append(text)
    title = " ".join(rng.choices(vocabulary, k=5))
    truth.insert(0, title)
    content = "\n".join(body)
    menu, side, foot = links(rng, vocabulary, rng.randint(4, 15)), links(rng, vocabulary, rng.randint(3, 20)), links(rng, vocabulary, rng.randint(2, 12))
    teaser = "".join(f"<div class=c{i}><h3>{link}</h3><p>{' '.join(rng.choices(vocabulary, k=18))}…</p></div>" for i, link in enumerate(links(rng, vocabulary, 4)))
    cookie = "<div id=x9><p>We and our partners use cookies to give you the best experience.</p><button>Accept</button></div>"
    copyright = f"&copy; 20{rng.randint(10, 26)} {' '.join(rng.choices(vocabulary, k=3))}. All rights reserved."
    li = "".join(f"<li>{m}</li>" for m in menu)
    kind = rng.randrange(6)
    if kind == 0:  # with the elements of HTML5
        page = f"<header><nav><ul>{li}</ul></nav></header><main><article><h1>{title}</h1>{content}</article></main><aside>{teaser}</aside><footer>{' '.join(foot)}<p>{copyright}</p></footer>"
    elif kind == 1:  # named parts
        page = f"<div id=navbar><ul>{li}</ul></div><div class='side-bar sidebar'>{'<br>'.join(side)}</div><div class=content><h1>{title}</h1>{content}</div><div class=related-posts>{teaser}</div><div id=footer>{copyright} {' | '.join(foot)}</div>"
    elif kind == 2:  # tables for layout
        page = f"<table><tr><td colspan=2>{' | '.join(menu)}</td></tr><tr><td>{'<br>'.join(side)}</td><td><h1>{title}</h1>{content}</td></tr><tr><td colspan=2><font size=1>{copyright}</font></td></tr></table>"
    elif kind == 3:  # nothing has a name
        page = f"<div><div><ul>{li}</ul></div><div><div><h1>{title}</h1>{content}</div><div>{teaser}</div></div><div>{' '.join(foot)} {copyright}</div></div>{cookie}"
    elif kind == 4:  # a blog
        remarks = "".join(f"<li class=comment><b>{rng.choice(vocabulary)}</b> says:<p>{' '.join(rng.choices(vocabulary, k=25))}</p><a href=#>Reply</a></li>" for _ in range(3))
        page = f"<div class=header><h2><a href=/>{rng.choice(vocabulary)}</a></h2>{' '.join(menu)}</div><div class=post><h1>{title}</h1><div class=share-buttons>{' '.join(links(rng, vocabulary, 4))}</div>{content}</div><ol id=comments>{remarks}</ol><div class=widget>{'<br>'.join(side)}</div><p>{copyright}</p>"
    else:  # scripts and tags of text before and after
        page = f"<script>var a = '{title}';</script><div class=top>{' '.join(menu)}</div><div class=breadcrumbs>{' &gt; '.join(links(rng, vocabulary, 3))}</div><section><h1>{title}</h1>{content}</section><section><h2>Read more</h2>{teaser}</section><footer><p>{copyright}</p>{' '.join(foot)}</footer>{cookie}"
    return f"<!DOCTYPE html><html><head><meta charset=utf-8><title>{title} - site</title></head><body>{page}</body></html>", "\n".join(truth)


def collect(folder, count):
    rng = random.Random(11)
    pairs, sources = [], []
    for source in sorted(pathlib.Path(folder).rglob("_sources/**/*.txt")):
        root = next(p for p in source.parents if p.name == "_sources")
        page = root.parent / source.relative_to(root).with_name(re.sub(r"(\.rst)?\.txt$", ".html", source.name))
        if not page.is_file():
            continue
        text = plain(source.read_text(encoding="utf-8"))
        sources.append(text)
        if len(text) > 1000 and "toctree" not in text:
            pairs.append((page.read_text(encoding="utf-8"), text))
    rng.shuffle(pairs)
    vocabulary = sorted({w for s in sources[:40] for w in re.findall(r"\b[a-z]{3,12}\b", s)})
    real, artificial = pairs[:count // 2], []
    while len(artificial) < count - len(real):
        if page := made(rng, sources, vocabulary):
            artificial.append(page)
    return real, artificial


def run_stoa(stoa, pages, rule):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "in").mkdir()
        for i, (page, _) in enumerate(pages):
            (folder / f"in/{i:06}.html").write_text(page, encoding="utf-8")
        (folder / "p.yaml").write_text(f"input: {{main_text: {rule}}}\nstages: [{{pii: {{remove_emails: false, remove_ips: false}}}}]\nallow_empty: true\n")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([stoa, "data", "run", folder / "p.yaml", "--input", folder / "in", "--output", folder / "out", "--workers", "1"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        texts = [""] * len(pages)
        for file in folder.glob("out/*/*.jsonl"):
            for line in open(file, encoding="utf-8"):
                row = json.loads(line)
                texts[int(row["id"].split(".")[0])] = row["text"]
        return texts, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run_peer(extract, pages):
    start = time.process_time()
    texts = [extract(page) or "" for page, _ in pages]
    return texts, time.process_time() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("folder")
    parser.add_argument("--pages", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output")
    a = parser.parse_args()
    import justext
    import trafilatura
    from resiliparse.extract.html2text import extract_plain_text
    stop = justext.get_stoplist("English")
    ways = {f"Stoa {rule}": lambda pages, rule=rule: run_stoa(a.stoa, pages, rule) for rule in RULES}
    ways["Resiliparse"] = lambda pages: run_peer(lambda page: extract_plain_text(page, main_content=True), pages)
    ways["jusText"] = lambda pages: run_peer(lambda page: "\n".join(p.text for p in justext.justext(page, stop) if not p.is_boilerplate), pages)
    ways["trafilatura"] = lambda pages: run_peer(trafilatura.extract, pages)
    real, artificial = collect(a.folder, a.pages)
    pages = real + artificial
    seconds, scores = collections.defaultdict(list), {}
    for _ in range(a.rounds):
        for name, way in ways.items():
            texts, took = way(pages)
            seconds[name].append(took)
            scores[name] = [score(text, truth) for text, (_, truth) in zip(texts, pages)]
    megabytes = sum(len(p.encode()) for p, _ in pages) / 1e6
    results = {"pages": len(pages), "of_packages": len(real), "html_mb": megabytes, "extractors": {}}
    print(f"{len(real)} pages of packages, {len(artificial)} made ones, {megabytes:.1f} MB")
    for name, rows in scores.items():
        f1 = [statistics.mean(r[2] for r in part) for part in (rows[:len(real)], rows[len(real):])]
        p, r = statistics.mean(x[0] for x in rows), statistics.mean(x[1] for x in rows)
        rate = len(pages) / statistics.median(seconds[name])
        print(f"{name:18} F1 {statistics.mean(f1):.3f} (packages {f1[0]:.3f}, made {f1[1]:.3f}), P {p:.3f}, R {r:.3f}; {rate:.0f} pages per CPU second")
        results["extractors"][name] = {"f1_packages": f1[0], "f1_made": f1[1], "precision": p, "recall": r, "pages_per_cpu_s": rate, "cpu_s": seconds[name]}
    if a.output:
        pathlib.Path(a.output).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
