#!/usr/bin/env python3
"""Goodput of `stoa serve` and of llama-server on the same GGUF file, with as many threads, under the load of as many clients.

  python bench/serve/goodput.py --file SmolLM2-135M-Instruct.Q4_1.gguf --llama-server build/bin/llama-server [--clients 16] [--rounds 5] [--json FILE]

The load is that of `stoa bench serve`: every client sends its next request when it was answered; prompts are random words, new ones in every round, so that no
cache has them; answers have a fixed number of tokens and are streamed. Goodput is the requests per second that keep both limits (time to the first token, time
per further token). Both servers run all the time and one is asked at a time, in turns; medians are reported. llama-server is llama.cpp's own, built with native
flags (cmake -DGGML_NATIVE=ON, target llama-server; its source is in the package xllamacpp), with a slot for each client.
"""
import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import sys
import time
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import served  # noqa: E402


def start_llama(program, file, clients, context, threads):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    process = subprocess.Popen([program, "-m", file, "--port", str(port), "-np", str(clients), "-c", str(clients * context), "-t", str(threads), "-tb", str(threads)],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    for _ in range(600):
        try:
            if urllib.request.urlopen(url + "/health").status == 200: return process, url
        except (urllib.error.URLError, ConnectionError):
            if process.poll() is not None: break
        time.sleep(0.1)
    sys.exit(f"{program} did not start")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", required=True)
    parser.add_argument("--llama-server", required=True)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--requests", type=int, default=64, help="of a round")
    parser.add_argument("--input", type=int, default=128, help="tokens")
    parser.add_argument("--output", type=int, default=64, help="tokens")
    parser.add_argument("--slo", default="ttft=1s,tpot=200ms")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json")
    args = parser.parse_args()
    context = 2 * (args.input + args.output)
    servers = {"stoa": served.start(args.stoa, args.file, "--threads", args.threads),
               "llama-server": start_llama(args.llama_server, args.file, args.clients, context, args.threads)}
    loads = {name: [] for name in servers}

    def ask(name, seed):
        return json.loads(common.output(args.stoa, "bench", "serve", servers[name][1] + "/v1", "--clients", args.clients, "--requests", args.requests, "--input",
                                        args.input, "--output", args.output, "--slo", args.slo, "--seed", seed, "--json"))["loads"][0]

    for number in range(args.rounds):
        for name in list(servers)[::-1 if number % 2 else 1]: loads[name].append(ask(name, number))
        print(f"round {number + 1}: " + ", ".join(f"{name} {of[-1]['goodput_requests_per_second']:.2f} good requests/s, {of[-1]['tokens_per_second']:.0f} tokens/s, TTFT "
                                                  f"{of[-1]['ttft_seconds']['p50']:.2f} s, TPOT {1000 * of[-1]['tpot_seconds']['p50']:.0f} ms" for name, of in loads.items()),
              file=sys.stderr, flush=True)
    for process, _ in servers.values(): served.stop(process)
    median = lambda name, key: statistics.median(load[key] for load in loads[name])
    common.save({**common.facts(), "benchmark": "goodput", "file": pathlib.Path(args.file).name, "clients": args.clients, "threads": args.threads, "slo": args.slo,
                 "input": args.input, "output": args.output, "loads": loads,
                 "medians": {name: {key: median(name, key) for key in ("goodput_requests_per_second", "requests_per_second", "tokens_per_second")} for name in loads}}, args.json)


if __name__ == "__main__":
    main()
