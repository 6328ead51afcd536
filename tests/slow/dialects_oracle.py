#!/usr/bin/env python3
"""Compares the stages `nemo_heuristics` and `dolma_taggers` with NeMo Curator's filters and dolma's taggers themselves, on real documents and on mutated ones: the first filter that drops a
document, and the scores of gopher_v1 and c4_v2 (to 1e-12).

  python tests/slow/dialects_oracle.py STOA DOCUMENTS.jsonl [--nemo FOLDER] [--dolma FOLDER] [--mutated N] [--limit N] [--longest C] [--seed S] [--processes P]

DOCUMENTS: as `curate_oracle.py --collect` collects them. FOLDER: unpacked wheels of nemo-curator 1.4.0 and dolma 1.2.1 (pip download --no-deps; unzip). Prints the numbers of documents and of
differences; ends with 1 if there are any. Needs what tests/oracle/make_curate_fixtures.py needs.
"""
import argparse
import collections
import functools
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "oracle"))


@functools.cache
def oracle_of(kind, folder):
    if kind == "nemo":
        import make_curate_filter_fixtures as oracle
        return functools.partial(oracle.decide, oracle.nemo_chain(str(folder)))
    import make_curate_dialect_fixtures as oracle
    return oracle.dolma(folder)


def answer(kind, folder, text):
    said = oracle_of(kind, folder)(text)
    return said[:1] if kind == "nemo" else {**said["v1"], **said["c4"]}


def stoa_rows(stoa, folder, command, pipeline, kinds):
    (folder / "pipeline.yaml").write_text(pipeline)
    subprocess.run(["rm", "-rf", folder / "out"], check=True)
    subprocess.run([stoa, "data", command, folder / "pipeline.yaml", "--input", folder / "in.jsonl", "--output", folder / "out"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return {int(row["id"]): row for kind in kinds for file in folder.glob(f"out/{kind}/*") for row in map(json.loads, open(file, encoding="utf-8"))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("documents")
    parser.add_argument("--nemo", type=pathlib.Path)
    parser.add_argument("--dolma", type=pathlib.Path)
    parser.add_argument("--mutated", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--limit", type=int, default=10**9)
    parser.add_argument("--longest", type=int, default=20_000)
    parser.add_argument("--processes", type=int, default=1)
    a = parser.parse_args()
    import make_curate_fixtures as base
    texts = [t for line in open(a.documents, encoding="utf-8") if len(t := json.loads(line)["text"]) <= a.longest][:a.limit]
    rng = random.Random(a.seed)
    texts += [base.generate(rng) if i % 5 < 2 else base.mutate(rng, rng.choice(texts)) for i in range(a.mutated)]
    texts = [t for t in (t.replace("\0", "").encode("utf-8", "replace").decode() for t in texts) if t.strip()]
    differences = 0

    def differs(i, ours, theirs):
        nonlocal differences
        differences += 1
        if differences <= 20:
            print(f"document {i}: Stoa {ours}, they {theirs}: {texts[i][:80]!r}")
    with multiprocessing.Pool(a.processes) as pool, tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "in.jsonl").write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(texts)))
        if a.nemo:
            rows, reasons = stoa_rows(a.stoa, folder, "run", "allow_empty: true\nstages: [nemo_heuristics]\n", ("kept", "dropped")), collections.Counter()
            for i, failed in enumerate(pool.imap(functools.partial(answer, "nemo", a.nemo), texts, chunksize=50)):
                theirs = f"nemo_heuristics/{failed[0]}" if failed else ""
                reasons[theirs] += 1
                if rows[i].get("reason", "") != theirs:
                    differs(i, rows[i].get("reason", ""), theirs)
            print(f"NeMo Curator: {len(texts)} documents of {sum(map(len, texts)):,} characters, {differences} differences; {dict(reasons.most_common())}")
        if a.dolma:
            before, scores, largest = differences, 0, 0.0
            rows = stoa_rows(a.stoa, folder, "tag", "allow_empty: true\nstages: [dolma_taggers]\n", ("attributes",))
            for i, theirs in enumerate(pool.imap(functools.partial(answer, "dolma", a.dolma), texts, chunksize=50)):
                ours = {rule[0].split("/")[1]: rule[1] for rule in rows[i]["rules"] if len(rule) > 1}
                for rule, score in theirs.items():
                    if rule == "character_count" or rule == "has_naughty_word":
                        continue
                    scores += 1
                    largest = max(largest, abs(ours[rule] - score))
                    if abs(ours[rule] - score) > 1e-12:
                        differs(i, (rule, ours[rule]), score)
            print(f"dolma: {len(texts)} documents, {scores} scores, {differences - before} differences; the largest {largest:.1e}")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
