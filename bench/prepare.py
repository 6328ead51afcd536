#!/usr/bin/env python3
"""How much of the pure encoder's rate `stoa data prepare` keeps, per core.

Makes a JSONL corpus from text files (cut into documents at blank lines, repeated to --megabytes), then alternates, --repeat times:
  encoder   `stoa data prepare --measure-encoder`: documents in memory, one thread, nothing but encode()
  prepare   `stoa data prepare --workers 1`: reads, parses, encodes, writes, syncs
Both run bound to --cores cores (taskset; default 1, so that reading and writing threads get no second one for free), with --workers
encoding threads. Rates are bytes of text (not of JSON) per second; ratios compare medians:
  ratio_wall     wall time, per worker: the figure on a quiet machine
  ratio_cpu      processor time of the whole process, kernel and page cache included: independent of other users
  ratio_worker   processor time of parsing and encoding alone: what is missing from 1 in the others, but not here, is reading and writing
Prints one JSON object.

  bench/prepare.py --stoa build/release/src/stoa --tokenizer TOK text1.txt text2.txt
"""
import argparse, json, os, shutil, statistics, subprocess, tempfile, time


def documents(paths, smallest=2000):
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = ""
            for paragraph in file.read().split("\n\n"):
                text += paragraph + "\n\n"
                if len(text) >= smallest:
                    yield text
                    text = ""
            if text.strip():
                yield text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("texts", nargs="+")
    parser.add_argument("--stoa", default="build/release/src/stoa")
    parser.add_argument("--tokenizer", required=True)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()

    cores = sorted(os.sched_getaffinity(0))[: args.cores]
    bound = ["taskset", "-c", ",".join(map(str, cores))]
    with tempfile.TemporaryDirectory() as folder:
        corpus = os.path.join(folder, "corpus.jsonl")
        texts = list(documents(args.texts))
        size = count = 0
        with open(corpus, "w", encoding="utf-8") as file:
            while size < args.megabytes * 1e6:
                for text in texts:
                    size += len(text.encode())
                    count += 1
                    file.write(json.dumps({"id": count, "text": text}) + "\n")

        def run(*extra):
            command = [*bound, args.stoa, "data", "prepare", corpus, "--tokenizer", args.tokenizer, "--json", *extra]
            start = time.monotonic()
            out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
            return json.loads(out) | {"process_seconds": time.monotonic() - start}

        encoder, prepare, process, encoder_cpu, prepare_cpu, worker_cpu = [], [], [], [], [], []
        for _ in range(args.repeat):
            result = run("--measure-encoder")
            encoder.append(result["mb_per_s"])
            encoder_cpu.append(result["text_bytes"] / 1e6 / result["cpu_seconds"])
            result = run("--workers", str(args.workers), "--output", os.path.join(folder, "out", "corpus"))
            shutil.rmtree(os.path.join(folder, "out"))  # not while the next one is timed
            prepare.append(result["mb_per_s"] / args.workers)
            prepare_cpu.append(result["text_bytes"] / 1e6 / result["cpu_seconds"])
            worker_cpu.append(result["text_bytes"] / 1e6 / result["worker_cpu_seconds"])
            process.append(result["text_bytes"] / 1e6 / result["process_seconds"] / args.workers)
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    print(json.dumps({
        "command": "data prepare", "cpu": cpu, "cores": args.cores, "workers": args.workers, "load_average": os.getloadavg()[0],
        "documents": count, "text_megabytes": size / 1e6,
        "encoder_mb_per_s": statistics.median(encoder),
        "prepare_mb_per_s_per_worker": statistics.median(prepare),
        "process_mb_per_s_per_worker": statistics.median(process),  # start of the program and loading of the tokenizer included
        "ratio_wall": statistics.median(prepare) / statistics.median(encoder),
        "encoder_mb_per_cpu_second": statistics.median(encoder_cpu),
        "prepare_mb_per_cpu_second": statistics.median(prepare_cpu),
        "ratio_cpu": statistics.median(prepare_cpu) / statistics.median(encoder_cpu),
        "worker_mb_per_cpu_second": statistics.median(worker_cpu),
        "ratio_worker": statistics.median(worker_cpu) / statistics.median(encoder_cpu),
        "runs": {"encoder": encoder, "prepare": prepare, "encoder_cpu": encoder_cpu, "prepare_cpu": prepare_cpu},
    }, indent=1))


if __name__ == "__main__":
    main()
