#!/usr/bin/env python3
"""Main text of pages by Stoa, Resiliparse, jusText and trafilatura: F1 of words against the truth, and CPU time, alternating.

  apt-get download python3.11-doc sphinx-doc cmake-doc linux-doc-6.1 git-doc; for d in *.deb; do dpkg -x $d unpacked/${d%%_*}; done
  python bench/data/extraction.py STOA unpacked [--pages N] [--skip N] [--rounds N] [--output RESULT.json]

Half of the pages are those of the packages, as many of each, whose sources in reStructuredText (html/_sources) or AsciiDoc without their markup are the truth;
that markup is removed by a few rules, so no extractor reaches 1. The other half is made: headings, paragraphs, lists and code from those sources, which are the truth, inside
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


def asciidoc(text):
    """The text of AsciiDoc without most of its markup."""
    text = re.sub(r"(?m)^//.*$|^[=\-~^+*_.]{4,}$|^\[.*\]$|^:[\w-]+:.*$|^\+$", "", text)
    return re.sub(r"linkgit:([\w-]+)\[(\d)\]|(?:link|mailto|http[^\s\[]*):?[^\s\[]*\[([^\]]*)\]", lambda m: f"{m[1]}({m[2]})" if m[1] else m[3], text)


def written_in_asciidoc(folder):
    for source in sorted(folder.rglob("*.txt")):
        page, text = source.with_suffix(".html"), source.read_text(encoding="utf-8", errors="replace")
        if page.is_file() and not re.search(r"(?m)^(?:include|ifdef|ifndef|ifeval)::", text):
            yield page, asciidoc(text)


def written_for_sphinx(folder):
    for source in sorted(folder.rglob("_sources/**/*.txt")):
        root = next(p for p in source.parents if p.name == "_sources")
        page = root.parent / source.relative_to(root).with_name(re.sub(r"(\.rst)?\.txt$", ".html", source.name))
        text = source.read_text(encoding="utf-8")
        if page.is_file() and not re.search(r"(?m)^\s*\.\. (?:\w+:)?(?:kernel-doc|include|literalinclude|kernel-include|kernel-figure|csv-table|auto\w+|cmake-module|toctree)::", text):  # text from elsewhere
            yield page, plain(text)


def collect(folder, count, skip):
    """Pages of each package in turn, after the first `skip` of each, and made ones."""
    rng = random.Random(11)
    packages, sources = {}, []
    for package in sorted(p for p in pathlib.Path(folder).iterdir() if p.is_dir()):
        pairs = []
        for page, text in [*written_for_sphinx(package), *written_in_asciidoc(package)]:
            sources.append(text)
            if 1000 < len(text) < 200_000 and "toctree" not in text:
                pairs.append((page.read_text(encoding="utf-8"), text))
        rng.shuffle(pairs)
        if pairs:
            packages[package.name] = pairs[skip:]
    vocabulary = sorted({w for s in rng.sample(sources, min(40, len(sources))) for w in re.findall(r"\b[a-z]{3,12}\b", s)})
    real = [(name, *pairs[i]) for i in range(count) for name, pairs in packages.items() if i < len(pairs)][:count // 2]
    artificial = []
    while len(artificial) < count - len(real):
        if page := made(rng, sources, vocabulary):
            artificial.append(("made", *page))
    return real + artificial


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
                texts[int(row["id"].split(".")[0])] = row.get("text", "")
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
    parser.add_argument("--skip", type=int, default=0, help="pages of each package that are left out: those that rules were tried on")
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
    taken = collect(a.folder, a.pages, a.skip)
    pages, kinds = [(page, text) for _, page, text in taken], [kind for kind, _, _ in taken]
    seconds, scores = collections.defaultdict(list), {}
    for _ in range(a.rounds):
        for name, way in ways.items():
            texts, took = way(pages)
            seconds[name].append(took)
            scores[name] = [score(text, truth) for text, (_, truth) in zip(texts, pages)]
    megabytes = sum(len(p.encode()) for p, _ in pages) / 1e6
    results = {"pages": collections.Counter(kinds), "html_mb": megabytes, "extractors": {}}
    print(f"{len(pages)} pages, {megabytes:.1f} MB: {dict(results['pages'])}")
    for name, rows in scores.items():
        f1 = {kind: statistics.mean(r[2] for r, k in zip(rows, kinds) if k == kind) for kind in results["pages"]}
        of_packages = statistics.mean(r[2] for r, k in zip(rows, kinds) if k != "made")
        p, r, f = (statistics.mean(x[i] for x in rows) for i in range(3))
        rate = len(pages) / statistics.median(seconds[name])
        print(f"{name:18} F1 {f:.3f} (packages {of_packages:.3f}: {', '.join(f'{k} {v:.3f}' for k, v in f1.items())}), P {p:.3f}, R {r:.3f}; {rate:.0f} pages per CPU second")
        results["extractors"][name] = {"f1": f, "f1_of": f1, "f1_packages": of_packages, "precision": p, "recall": r, "pages_per_cpu_s": rate, "cpu_s": seconds[name]}
    if a.output:
        pathlib.Path(a.output).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
