#!/usr/bin/env python3
"""Compares `stoa data run` with datatrove itself on real documents and on mutated ones: decision, first reason and text of every document of
FineWeb's chain, the 112 hashes of its MinHash signature, and the clusters of near-duplicates.

  python tests/slow/curate_oracle.py STOA DOCUMENTS.jsonl [--mutated N] [--processes N] [--answers FILE]

Prints the number of documents and of differences; ends with 1 if there are any. datatrove takes an hour for 100,000 documents: with --answers what it says is kept
in FILE, and a later call with the same documents goes on from there. `python tests/slow/curate_oracle.py --collect OUT.jsonl` collects texts of this machine:
documentation, manual pages, descriptions of Python packages; --root DIRECTORY adds those of unpacked packages. Needs: pip install datatrove==0.10.1 spacy==3.8.18 tokenizers 'xxhash<3.6'
"""
import argparse
import collections
import gzip
import html
import json
import multiprocessing
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))
SOURCES = ["/usr/share/doc", "/usr/share/man", "/usr/lib/python3", "/usr/local/lib", "/usr/share/perl"] + sys.path
SUFFIXES = (".txt", ".txt.gz", ".md", ".rst", "METADATA", "PKG-INFO", "README", "README.gz", "copyright", "changelog.gz", "NEWS.gz", ".html",
            ".html.gz", ".pod", ".py", ".pm")


def manual(text):
    text = re.sub(r'(?m)^\.\\".*$', "", text)
    text = re.sub(r"(?m)^\.(SH|SS|PP|P|LP)\b ?", "\n", text)
    text = re.sub(r"(?m)^\.(B|I|BR|TP|IP|RB|IR)\b ?", "", text)
    return re.sub(r"\\f.|\\&", "", re.sub(r"(?m)^[.'].*$", "", text)).replace("\\-", "-")


def page(text):
    text = re.sub(r"(?s)<(script|style).*?</\1>", "", text)
    text = html.unescape(re.sub(r"<[^>]*>", "", re.sub(r"<(p|br|li|tr|h\d|div)[^>]*>", "\n", text)))
    return re.sub(r"\n\s*\n+", "\n\n", text)


def collect(path, roots):
    seen = set()
    with open(path, "w", encoding="utf-8") as out:
        for root in roots + SOURCES:
            if not root:
                continue
            for file in sorted(pathlib.Path(root).rglob("*")):
                name = file.name
                is_manual = re.search(r"\.[1-9][a-z]*\.gz$", name)
                if not (name.endswith(SUFFIXES) or is_manual) or file.is_symlink() or not file.is_file():
                    continue
                data = gzip.open(file).read() if name.endswith(".gz") else file.read_bytes()
                text = data.decode("utf-8", "replace").replace("\0", "")
                text = manual(text) if is_manual else page(text) if ".html" in name else text
                if name.endswith((".py", ".pm")):
                    text = "\n\n".join(re.findall(r'(?s)"""(.*?)"""', text))
                if 200 <= len(text) <= 100_000 and hash(text) not in seen:
                    seen.add(hash(text))
                    out.write(json.dumps({"id": str(len(seen)), "text": text, "source": str(file)}) + "\n")
    print(f"{len(seen)} documents")


def decide(text):
    import make_curate_fixtures as oracle
    try:
        return oracle.decide(text)
    except (ZeroDivisionError, AssertionError) as e:
        return type(e).__name__, None


def answer(text):
    """What datatrove says of a text: reason, the text that it leaves (None: dropped, or unchanged), and its signature."""
    import make_curate_fixtures as oracle
    reason, left = decide(text)
    return [zlib.crc32(text.encode()), reason, None if left == text else left, "".join(f"{h:016x}" for h in oracle.signature(text))]


def answers(texts, file, pool):
    known = []
    if file and file.exists():
        known = [json.loads(line) for line in open(file, encoding="utf-8") if line.endswith("]\n")]
        for text, row in zip(texts, known):
            assert zlib.crc32(text.encode()) == row[0], f"{file} has the answers for other documents"
        known = known[:len(texts)]
    yield from known
    with open(file, "a", encoding="utf-8") if file else tempfile.TemporaryFile("w") as out:
        for row in pool.imap(answer, texts[len(known):], chunksize=50):
            out.write(json.dumps(row) + "\n")
            yield row


def clusters_of(signatures):  # of 14 bands of 8 hashes of 16 digits each
    parent = list(range(len(signatures)))

    def root(x):
        while parent[x] != x:
            parent[x] = parent[parent[x]]
            x = parent[x]
        return x
    for band in range(14):
        first = {}
        for i, signature in enumerate(signatures):
            if signature:
                a, b = root(first.setdefault(signature[128 * band:128 * band + 128], i)), root(i)
                parent[max(a, b)] = min(a, b)
    return [root(i) for i in range(len(signatures))]


def run(stoa, folder, pipeline):
    (folder / "pipeline.yaml").write_text(pipeline)
    subprocess.run([stoa, "data", "run", folder / "pipeline.yaml", "--input", folder / "in.jsonl", "--output", folder / "out"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    rows = {}
    for file in list(folder.glob("out/kept/*")) + list(folder.glob("out/dropped/*")):
        for line in open(file, encoding="utf-8"):
            row = json.loads(line)
            rows[int(row["id"])] = row
    return rows


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("documents", nargs="?")
    parser.add_argument("--collect", action="store_true")
    parser.add_argument("--root", action="append", default=[])
    parser.add_argument("--answers", type=pathlib.Path)
    parser.add_argument("--longest", type=int, default=100_000, help="characters of a document that is taken")
    parser.add_argument("--mutated", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--limit", type=int, default=10**9)
    a = parser.parse_args()
    if a.collect:
        return collect(a.stoa, a.root)
    import make_curate_fixtures as oracle
    texts = [t for line in open(a.documents, encoding="utf-8") if len(t := json.loads(line)["text"]) <= a.longest][:a.limit]
    rng = random.Random(a.seed)
    texts += [oracle.generate(rng) if i % 5 < 2 else oracle.mutate(rng, rng.choice(texts)) for i in range(a.mutated)]
    texts = [t.replace("\0", "").encode("utf-8", "replace").decode() for t in texts if oracle.UNSPEAKABLE not in t]
    differences, reasons = collections.Counter(), collections.Counter()
    with multiprocessing.Pool(a.processes) as pool, tempfile.TemporaryDirectory() as name:
        said = list(answers(texts, a.answers, pool))
        folder = pathlib.Path(name)
        (folder / "in.jsonl").write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)))
        rows = run(a.stoa, folder, "allow_empty: true\nstages: [gopher_repetition, gopher_quality, {c4_quality: {filter_no_terminal_punct: false}}, "
                   "fineweb_quality]\n")
        for i, (_, reason, left, _) in enumerate(said):
            reasons[reason] += 1
            row = rows[i]
            if (reason or "") != row.get("reason", "") or (reason is None and (texts[i] if left is None else left) != row["text"]):
                differences["decisions"] += 1
                print(f"document {i}: datatrove {reason}, Stoa {row.get('reason', '')}: {texts[i][:80]!r}")
        print(f"{len(texts)} documents of {sum(map(len, texts)):,} characters, {differences['decisions']} differences of decision; {dict(reasons)}")
        subprocess.run(["rm", "-r", folder / "out"], check=True)
        rows = run(a.stoa, folder, "stages: [minhash_signature]\ndeduplicate: [minhash]\n")
        differences["signatures"] = sum(rows[i]["minhash"] != signature for i, (*_, signature) in enumerate(said))
        print(f"{sum(bool(s) for *_, s in said)} signatures of 112 hashes, {differences['signatures']} of them not bit-equal")
        clusters = clusters_of([signature for *_, signature in said])
        sizes = collections.Counter(clusters)
        differences["clusters"] = sum((rows[i].get("duplicate_cluster", i), "reason" in rows[i]) != (c, c != i) for i, c in enumerate(clusters))
        print(f"{len(texts)} documents in {len(sizes)} clusters, the largest of {max(sizes.values())}; {differences['clusters']} differences")
    sys.exit(1 if differences.total() else 0)


if __name__ == "__main__":
    main()
