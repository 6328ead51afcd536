#!/usr/bin/env python3
"""What HTTP costs: 16 clients of `stoa serve` beside the same prompts in `stoa generate --prompts`, which runs the same engine without a server.

  python bench/serve/http_cost.py --model SmolLM2-135M-Instruct.Q4_1.gguf [--clients 16] [--answer 200] [--rounds 5] [--json FILE]

The load is that of `stoa bench serve`: as many clients as prompts, streamed answers of a fixed number of tokens, greedy. Both programs take turns, have new
prompts in every round, so that no cache has them, and as many threads. Their tokens per second count from the first request to the last token, without the
loading of the model. The client of `bench serve` runs on the same processor, so that its cost counts as the server's.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import served  # noqa: E402


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--answer", type=int, default=200, help="tokens")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json")
    args = parser.parse_args()
    draw = random.Random(3)
    server, url = served.start(args.stoa, args.model, "--threads", args.threads)
    rates = {"server": [], "engine": []}
    with tempfile.TemporaryDirectory() as folder:
        def prompts():
            return common.prompts_of_words(draw, args.clients, 30)

        def ask_server(number):
            file = pathlib.Path(folder) / f"server-{number}.txt"
            file.write_text("".join(prompt + "\n" for prompt in prompts()))
            load = json.loads(common.output(args.stoa, "bench", "serve", url + "/v1", "--clients", args.clients, "--requests", args.clients, "--output", args.answer,
                                            "--prompts", file, "--json"))["loads"][0]
            if load["tokens"] != args.clients * args.answer: sys.exit(f"{load['tokens']} tokens instead of {args.clients * args.answer}")
            return load["tokens_per_second"]

        def ask_engine(number):
            return common.answer_prompts(args.stoa, args.model, prompts(), args.answer, pathlib.Path(folder) / f"engine-{number}.jsonl", "--threads", args.threads)

        ask_server("first"), ask_engine("first")
        for number in range(args.rounds):
            for name, ask in (("server", ask_server), ("engine", ask_engine))[::-1 if number % 2 else 1]:
                rates[name].append(ask(number))
            print(f"round {number + 1}: server {rates['server'][-1]:.0f}, engine {rates['engine'][-1]:.0f} tokens/s", file=sys.stderr, flush=True)
    served.stop(server)
    medians = {name: statistics.median(values) for name, values in rates.items()}
    common.save({**common.facts(), "benchmark": "http_cost", "model": pathlib.Path(args.model).name, "clients": args.clients, "answer": args.answer,
                 "threads": args.threads, "tokens_per_second": rates, "medians": medians,
                 "server_over_engine": medians["server"] / medians["engine"],
                 "median_of_ratios": statistics.median(s / e for s, e in zip(rates["server"], rates["engine"]))}, args.json)


if __name__ == "__main__":
    main()
