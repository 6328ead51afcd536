#!/usr/bin/env python3
"""`stoa bench serve` beside guidellm: both put the same load on a server whose times are known, guidellm's mock server, and should see them.

  python bench/serve/guidellm_check.py --tokenizer DIR [--guidellm guidellm] [--clients 1,4,16] [--requests 8] [--rounds 3] [--json FILE]

The mock server answers a first token after 200 ms and each further one after 20, whatever the load. Chats of about 64 tokens get answers of 48. --tokenizer: a
model's directory of Hugging Face's form, by which guidellm makes its prompts. Compared are means: the time to the first token, the time of each further one
(guidellm's inter-token latency), and tokens per second. A real server would not do: guidellm is a Python program and takes half of two cores from a server beside
it. Needs: pip install guidellm
"""
import argparse
import json
import pathlib
import socket
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402

INPUT, OUTPUT = 64, 48  # tokens
FIRST, NEXT = 200, 20  # milliseconds


def of_stoa(args, url, clients, number):
    load = json.loads(common.output(args.stoa, "bench", "serve", url + "/v1", "--chat", "--clients", clients, "--requests", args.requests * clients, "--input", INPUT,
                                    "--output", OUTPUT, "--seed", number, "--json"))["loads"][0]
    return {"ttft": load["ttft_seconds"]["mean"], "tpot": load["tpot_seconds"]["mean"], "tokens_per_second": load["tokens_per_second"]}


def of_guidellm(args, url, clients, number):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "report.json"
        common.output(args.guidellm, "run", "--backend", f"kind=openai_http,target={url}", "--profile", f"kind=concurrent,streams={clients}",
                      "--constraint", f"kind=max_requests,count={args.requests * clients}", "--tokenizer", f"kind=hf_auto,model={args.tokenizer}", "--data",
                      f"kind=synthetic_text,prompt_tokens={INPUT},output_tokens={OUTPUT}", "--seed", f"kind=static,value={number}", "--output",
                      f"kind=json,path={report}", "--disable-console")
        found = json.loads(report.read_text())["benchmarks"][0]
    metrics = found["metrics"]
    answered = metrics["request_totals"]["successful"]
    if answered != args.requests * clients: sys.exit(f"guidellm: {answered} of {args.requests * clients} requests were answered")
    return {"ttft": metrics["time_to_first_token_ms"]["successful"]["mean"] / 1e3, "tpot": metrics["inter_token_latency_ms"]["successful"]["mean"] / 1e3,
            "tokens_per_second": args.requests * clients * OUTPUT / found["duration"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokenizer", required=True, type=pathlib.Path)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--guidellm", default="guidellm")
    parser.add_argument("--clients", default="1,4,16")
    parser.add_argument("--requests", type=int, default=8, help="per client")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json")
    args = parser.parse_args()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen([args.guidellm, "mock-server", "--port", str(port), "--ttft-ms", str(FIRST), "--itl-ms", str(NEXT)], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    url, rows = f"http://127.0.0.1:{port}", []
    for _ in range(300):
        with socket.socket() as trial:
            if trial.connect_ex(("127.0.0.1", port)) == 0: break
        time.sleep(0.2)
    else:
        sys.exit("guidellm mock-server did not start")
    tools = {"stoa": of_stoa, "guidellm": of_guidellm}
    for clients in map(int, args.clients.split(",")):
        seen = {name: [] for name in tools}
        for number in range(args.rounds):
            for name in list(tools)[::-1 if number % 2 else 1]: seen[name].append(tools[name](args, url, clients, number))
        medians = {name: {key: statistics.median(row[key] for row in found) for key in found[0]} for name, found in seen.items()}
        rows.append({"clients": clients, "rounds": seen, "medians": medians})
        for name, found in medians.items():
            print(f"{clients} clients, {name:8}: TTFT {found['ttft'] * 1e3:.0f} ms, TPOT {found['tpot'] * 1e3:.1f} ms, {found['tokens_per_second']:.0f} tokens/s",
                  file=sys.stderr, flush=True)
    server.terminate()
    server.wait()
    common.save({**common.facts(), "benchmark": "guidellm_check", "first_ms": FIRST, "next_ms": NEXT, "requests": args.requests, "input": INPUT,
                 "output": OUTPUT, "rows": rows}, args.json)


if __name__ == "__main__":
    main()
