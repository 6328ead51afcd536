#!/usr/bin/env python3
"""Rates of parts of the data factory, per core, beside the programs that do the same, alternating in one run:

  archive     a .warc.gz of pages to main text (rules `resiliparse` and `stoa`) beside fastwarc + Resiliparse
  language    the stage `language` (CLD2, and the model that comes with Stoa) over lines of text
  perplexity  the stage `perplexity` beside kenlm: the same ARPA file, the same documents, the largest difference of their perplexities
  pipe        text -> pipeline `fineweb` (filters, near-duplicates) -> `data blend` -> shuffled .bin/.idx; and the same with limits that keep nearly all,
              so that every rule, all signatures and all tokens are paid for

  python bench/data/rates.py STOA DOCUMENTS.jsonl [--pages FOLDER] [--parts archive language perplexity pipe] [--rounds N] [--output RESULT.json]

DOCUMENTS: as `tests/slow/curate_oracle.py --collect` makes them; FOLDER: pages (.html), such as an unpacked python3.11-doc. Times are CPU seconds of one worker; Stoa's are those of the whole
program, reading and writing included, those of the others are their work alone, on data in memory (kenlm, Resiliparse) or read by themselves (fastwarc).
Needs: pip install fastwarc==2.0.1 resiliparse==2.0.1 kenlm
"""
import argparse
import collections
import gzip
import json
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time


def stoa_seconds(stoa, *words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([stoa, *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def own_seconds(work):
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def run(stoa, folder, pipeline, documents, *more):
    (folder / "p.yaml").write_text(pipeline)
    subprocess.run(["rm", "-rf", folder / "out"], check=True)
    return stoa_seconds(stoa, "data", "run", folder / "p.yaml", "--input", documents, "--output", folder / "out", "--workers", 1, *more)


def rows_of(folder):
    return [json.loads(line) for part in ("kept", "dropped") for file in sorted(folder.glob(f"out/{part}/*")) for line in open(file, encoding="utf-8")]


def write_documents(path, texts):
    """Returns the bytes of the texts."""
    with open(path, "w", encoding="utf-8") as out:
        for i, text in enumerate(texts):
            out.write(json.dumps({"id": i, "text": text}, ensure_ascii=False) + "\n")
    return sum(len(t.encode()) for t in texts)


def write_archive(path, pages, most_bytes):
    size = count = 0
    with open(path, "wb") as out:
        while size < most_bytes:
            for i, page in enumerate(pages):
                answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nContent-Length: %d\r\n\r\n" % len(page) + page
                head = (f"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: http://example.org/{count}\r\nWARC-Record-ID: <urn:uuid:00000000-0000-0000-0000-{count:012}>\r\n"
                        f"WARC-Date: 2026-01-01T00:00:00Z\r\nContent-Type: application/http; msgtype=response\r\nContent-Length: {len(answer)}\r\n\r\n").encode()
                out.write(gzip.compress(head + answer + b"\r\n\r\n", 6))
                size += len(page)
                count += 1
                if size >= most_bytes:
                    break
    return size, count


def archive(a, folder):
    from fastwarc.warc import ArchiveIterator, WarcRecordType
    from resiliparse.extract.html2text import extract_plain_text
    from resiliparse.parse.html import HTMLTree
    pages = [p.read_bytes() for p in sorted(pathlib.Path(a.pages).rglob("*.html")) if p.stat().st_size < 500_000]
    size, count = write_archive(folder / "in.warc.gz", pages, 60_000_000)

    def peer():
        characters = 0
        with open(folder / "in.warc.gz", "rb") as stream:
            for record in ArchiveIterator(stream, record_types=WarcRecordType.response, parse_http=True):
                tree = HTMLTree.parse_from_bytes(record.reader.read(), "utf-8")
                characters += len(extract_plain_text(tree, main_content=True))
        return characters
    result = {"html_mb": size / 1e6, "pages": count}
    for rule in ("resiliparse", "stoa"):
        ratios, ours, theirs = [], [], []
        for _ in range(a.rounds):
            ours.append(run(a.stoa, folder, f"input: {{main_text: {rule}}}\nallow_empty: true\nstages: [{{pii: {{remove_emails: false, remove_ips: false}}}}]\n", folder / "in.warc.gz"))
            theirs.append(own_seconds(peer)[0])
            ratios.append(theirs[-1] / ours[-1])
        print(f"archive, rule {rule}: Stoa {count / statistics.median(ours):.0f} pages/s ({size / 1e6 / statistics.median(ours):.0f} MB/s of HTML), fastwarc + Resiliparse "
              f"{count / statistics.median(theirs):.0f} pages/s; {statistics.median(ratios):.2f} x")
        result[rule] = {"stoa_cpu_s": ours, "peer_cpu_s": theirs, "ratio": statistics.median(ratios)}
    return result


def language(a, folder):
    texts = a.texts
    size = write_documents(folder / "in.jsonl", texts) / 1e6
    result = {"text_mb": size}
    reading = "allow_empty: true\nstages: [{pii: {remove_emails: false, remove_ips: false}}]\n"
    for model in ("cld2", "stoa"):
        all_of_it, rest = [], []
        for _ in range(a.rounds):
            rest.append(run(a.stoa, folder, reading, folder / "in.jsonl"))
            all_of_it.append(run(a.stoa, folder, f"stages: [{{language: {{model: {model}, label_only: true}}}}]\n", folder / "in.jsonl"))
        whole = statistics.median(all_of_it)
        alone = statistics.median(x - y for x, y in zip(all_of_it, rest))
        print(f"language, {model}: {size / whole:.0f} MB/s of the whole run, {size / alone:.0f} MB/s without reading and writing")
        result[model] = {"cpu_s": all_of_it, "without_the_stage_cpu_s": rest}
    return result


def perplexity(a, folder):
    import kenlm
    words = [" ".join(t.split()) for t in a.texts]
    split = len(words) // 2
    (folder / "train.txt").write_text("\n".join(words[:split]) + "\n")
    subprocess.run(["rm", "-f", folder / "m.arpa"], check=True)
    trained = stoa_seconds(a.stoa, "data", "train-lm", folder / "train.txt", "--text-split", "line", "--raw", "--order", 5, "--output", folder / "m.arpa")
    tests = words[split:]
    copies = 16  # for Stoa and for kenlm, so that noise counts less
    write_documents(folder / "in.jsonl", tests * copies)
    began = time.process_time()
    model = kenlm.Model(str(folder / "m.arpa"))
    loaded = time.process_time() - began
    tokens = copies * sum(len(t.split()) + 1 for t in tests)
    ours, theirs, ratios, starts, splits = [], [], [], [], []
    empty = folder / "one.jsonl"
    write_documents(empty, ["the"])
    pipeline = f"allow_empty: true\nstages: [{{perplexity: {{model: {folder / 'm.arpa'}, normalize: false}}}}]\n"
    for _ in range(a.rounds):
        starts.append(run(a.stoa, folder, pipeline, empty))  # reading the model
        ours.append(run(a.stoa, folder, pipeline, folder / "in.jsonl") - statistics.median(starts))
        theirs.append(own_seconds(lambda: [model.score(t, bos=True, eos=True) for t in tests * copies])[0])
        splits.append(own_seconds(lambda: collections.deque((t.encode().split() for t in tests * copies), maxlen=0))[0])  # as kenlm's module does it first
        ratios.append(theirs[-1] / ours[-1])
    said = {int(row["id"]): row["perplexity"] for row in rows_of(folder)}
    # kenlm's score() adds up the words of a text in fp32; full_scores() gives every word's, which Python adds in fp64.
    worst = {"score": 0, "full_scores": 0}
    for i, text in enumerate(tests):
        count = len(text.split()) + 1
        for way, total in (("score", model.score(text, bos=True, eos=True)), ("full_scores", sum(s for s, _, _ in model.full_scores(text, bos=True, eos=True)))):
            worst[way] = max(worst[way], abs(said[i] / 10 ** (-total / count) - 1))
    start_up = statistics.median(starts)
    print(f"perplexity: {tokens} tokens; Stoa {tokens / statistics.median(ours) / 1e6:.2f} M tokens/s (files read and written included), kenlm {tokens / statistics.median(theirs) / 1e6:.2f}; "
          f"{statistics.median(ratios):.2f} x, {statistics.median((t - s) / o for o, t, s in zip(ours, theirs, splits)):.2f} x without the splitting of kenlm's Python module; largest relative difference {worst['full_scores']:.1e} from the fp64 sum of kenlm's words, {worst['score']:.1e} from its fp32 sum; model trained in "
          f"{trained:.1f} s, read by Stoa in {start_up:.1f} s, by kenlm in {loaded:.1f} s; all in all {(loaded + statistics.median(theirs)) / (start_up + statistics.median(ours)):.2f} x")
    return {"tokens": tokens, "stoa_cpu_s": ours, "kenlm_cpu_s": theirs, "splitting_cpu_s": splits, "ratio": statistics.median(ratios), "largest_relative_difference": worst, "stoa_reads_s": starts, "kenlm_reads_s": loaded}


FINEWEB = "stages: [gopher_repetition, gopher_quality, {c4_quality: {filter_no_terminal_punct: false}}, fineweb_quality]\ndeduplicate: [minhash]\n"
# The same work, and hardly a document is dropped.
PERMISSIVE = """stages:
  - gopher_repetition: {dup_para_frac: 1, dup_para_char_frac: 1, dup_line_frac: 1, dup_line_char_frac: 1, top_n_grams: [100, 100, 100], dup_n_grams: [1, 1, 1, 1, 1, 1]}
  - gopher_quality: {min_doc_words: 1, min_avg_word_length: 0.1, max_avg_word_length: 100, max_symbol_word_ratio: 10, max_bullet_lines_ratio: 1, max_ellipsis_lines_ratio: 1,
                     max_non_alpha_words_ratio: 0.01, stop_words: [the, be, to, of, and, that, have, with, de, der, un, "-", ".", ","], min_stop_words: 1}
  - c4_quality: {filter_no_terminal_punct: false, filter_curly_bracket: false, min_num_sentences: 1}
  - fineweb_quality: {line_punct_thr: 0.001, short_line_thr: 1, char_duplicates_ratio: 1, new_line_ratio: 10}
deduplicate: [minhash]
"""


def pipe(a, folder):
    size = write_documents(folder / "in.jsonl", a.texts)
    (folder / "train.txt").write_text("\n".join(a.texts[:200]))
    stoa_seconds(a.stoa, "tokenizer", "train", folder / "train.txt", "--vocab-size", 8192, "--output", folder / "tok")
    (folder / "recipe.yaml").write_text(f"sources: [{{name: clean, path: {folder / 'out/kept'}}}]\n")
    results = {"text_mb": size / 1e6}
    for title, pipeline in (("fineweb", FINEWEB), ("permissive", PERMISSIVE)):
        cleaned, blended = [], []
        for _ in range(a.rounds):
            cleaned.append(run(a.stoa, folder, pipeline, folder / "in.jsonl"))
            subprocess.run(f"rm -f {folder}/mix*", shell=True, check=True)
            blended.append(stoa_seconds(a.stoa, "data", "blend", folder / "recipe.yaml", "--tokenizer", folder / "tok", "--output", folder / "mix", "--workers", 1))
        kept = sum(len(row["text"].encode()) for file in folder.glob("out/kept/*") for row in map(json.loads, open(file, encoding="utf-8")))
        total = [x + y for x, y in zip(cleaned, blended)]
        print(f"pipe, {title}: {size / 1e6:.1f} MB of text, {kept / 1e6:.1f} MB kept; {size / 1e6 / statistics.median(total):.1f} MB/s per core (cleaning {size / 1e6 / statistics.median(cleaned):.1f}, "
              f"blending what is kept {kept / 1e6 / statistics.median(blended):.1f})")
        results[title] = {"kept_mb": kept / 1e6, "clean_cpu_s": cleaned, "blend_cpu_s": blended, "mb_per_cpu_s": size / 1e6 / statistics.median(total)}
    return results


def main():
    parts = {f.__name__: f for f in (archive, language, perplexity, pipe)}
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("documents")
    parser.add_argument("--pages", default="/usr/share/doc")
    parser.add_argument("--parts", nargs="*", default=list(parts), choices=list(parts))
    parser.add_argument("--limit", type=int, default=6000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output")
    a = parser.parse_args()
    a.texts = [t for line in open(a.documents, encoding="utf-8") if 200 <= len(t := json.loads(line)["text"]) <= 50_000][:a.limit]
    results = {}
    for name in a.parts:
        with tempfile.TemporaryDirectory() as folder:
            results[name] = parts[name](a, pathlib.Path(folder))
    if a.output:
        pathlib.Path(a.output).write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
