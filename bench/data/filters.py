#!/usr/bin/env python3
"""Speed of `stoa data run` next to datatrove on the same documents, one core each, alternating: the filters of FineWeb, and MinHash signatures.

  python bench/data/filters.py STOA DOCUMENTS.jsonl [--limit N] [--rounds N] [--output RESULT.json]

Times are CPU seconds, which a busy machine does not stretch as much as the clock's. Stoa's are those of the whole program: reading and parsing JSON
lines, deciding (or signing, sorting and writing without copies), writing kept and dropped documents. datatrove's are those of its filters (or signatures) alone, on
documents in memory. `tests/slow/curate_oracle.py --collect` makes documents. Needs what that script needs.
"""
import argparse
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent.parent / "tests/oracle"))
import make_curate_fixtures as oracle  # noqa: E402

FILTERS = "allow_empty: true\nstages: [gopher_repetition, gopher_quality, {c4_quality: {filter_no_terminal_punct: false}}, fineweb_quality]\n"
MINHASH = "deduplicate: [minhash]\n"


def stoa_seconds(stoa, documents, pipeline):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "pipeline.yaml").write_text(pipeline)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([stoa, "data", "run", folder / "pipeline.yaml", "--input", documents, "--output", folder / "out", "--workers", "1"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def python_seconds(texts, work):
    start = time.process_time()
    for text in texts:
        try:
            work(text)
        except (ZeroDivisionError, AssertionError):
            pass
    return time.process_time() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("documents")
    parser.add_argument("--limit", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output")
    a = parser.parse_args()
    rows = [json.loads(line) for line in open(a.documents, encoding="utf-8")][:a.limit]
    texts = [row["text"] for row in rows if oracle.UNSPEAKABLE not in row["text"]]
    megabytes = sum(len(t.encode()) for t in texts) / 1e6
    copies = max(1, round(40 / megabytes))  # for Stoa, so that its start does not count: other ids, the same texts
    results = {"documents": len(texts), "text_mb": megabytes}
    with tempfile.TemporaryDirectory() as name:
        path = pathlib.Path(name) / "documents.jsonl"
        with open(path, "w", encoding="utf-8") as out:
            for copy in range(copies):
                for i, text in enumerate(texts):
                    out.write(json.dumps({"id": f"{copy}-{i}", "text": text}) + "\n")
        for title, pipeline, work in (("filters", FILTERS, oracle.decide), ("minhash", MINHASH, oracle.signature)):
            ours, theirs = [], []
            for _ in range(a.rounds):
                ours.append(megabytes * copies / stoa_seconds(a.stoa, path, pipeline))
                theirs.append(megabytes / python_seconds(texts, work))
            rates = statistics.median(ours), statistics.median(theirs)
            ratio = statistics.median(x / y for x, y in zip(ours, theirs))
            print(f"{title}: Stoa {rates[0]:.1f} MB/s per core, datatrove {rates[1]:.3f}, {ratio:.0f} x")
            results[title] = {"stoa_mb_per_cpu_s": ours, "datatrove_mb_per_cpu_s": theirs, "ratio": ratio}
    if a.output:
        pathlib.Path(a.output).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
