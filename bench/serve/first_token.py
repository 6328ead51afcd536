#!/usr/bin/env python3
"""When the first token comes: after `stoa serve` is started, and for a second question to a document that the first one made the server read.

  python bench/serve/first_token.py --model SmolLM2-135M-Instruct.Q4_1.gguf [--document 4000] [--rounds 5] [--json FILE]

The start counts from the call of the program to the first piece of a streamed answer, with the file in the operating system's cache; the client asks as soon as the server accepts connections.
Documents are random ids, new in every round.
"""
import argparse
import json
import pathlib
import random
import statistics
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common  # noqa: E402
import served  # noqa: E402


def first_piece(url, ids):
    """Seconds until the first piece of an answer to these ids."""
    body = json.dumps({"prompt": ids, "max_tokens": 4, "min_tokens": 4, "temperature": 0, "stream": True}).encode()
    begin = time.perf_counter()
    with urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})) as reply:
        for line in reply:
            if line.startswith(b"data: {"):
                seconds = time.perf_counter() - begin
                reply.read()
                return seconds
    sys.exit("no answer")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--document", type=int, default=4000, help="tokens")
    parser.add_argument("--question", type=int, default=20, help="tokens")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json")
    args = parser.parse_args()
    draw = random.Random(7)
    ids = lambda count: [draw.randrange(100, 10000) for _ in range(count)]
    starts, first, second = [], [], []
    for number in range(args.rounds + 1):
        begin = time.perf_counter()
        server, url = served.start(args.stoa, args.model)
        first_piece(url, ids(8))
        if number > 0: starts.append(time.perf_counter() - begin)  # the first start reads the file from disk
        if number == args.rounds:
            for _ in range(args.rounds):
                document = ids(args.document)
                first.append(first_piece(url, document + ids(args.question)))
                second.append(first_piece(url, document + ids(args.question)))
        served.stop(server)
    ratios = [b / a for a, b in zip(first, second)]
    print(f"first token after the start: {statistics.median(starts):.2f} s; a document of {args.document} tokens: first question {statistics.median(first):.2f} s, second "
          f"{statistics.median(second):.3f} s, {100 * statistics.median(ratios):.1f} %")
    common.save({**common.facts(), "benchmark": "first_token", "model": pathlib.Path(args.model).name, "start_seconds": starts, "document": args.document,
                 "first_question_seconds": first, "second_question_seconds": second, "median_of_ratios": statistics.median(ratios)}, args.json)


if __name__ == "__main__":
    main()
