#!/usr/bin/env python3
"""What `stoa plan inference --measured` predicts, beside what the engine does: tokens per second of batches.

  python bench/serve/plan_inference.py --model SmolLM2-135M-Instruct.Q4_1.gguf [--batches 1 8 32] [--input 128] [--output 64] [--rounds 3] [--json FILE]

In every round, passes of the engine are measured (`stoa bench engine`), batches are answered by `stoa serve`, with new prompts that no cache has, and passes are measured again. The server has used all
of its memory for keys and values before: a system that first provides it takes time for that, which no prediction has. What
counts is the mean of both predictions, as the speed of a shared machine changes, and the median of the rounds' ratios.
"""
import argparse
import json
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
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--input", type=int, default=128, help="tokens of a prompt")
    parser.add_argument("--output", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-context", type=int, default=512, help="of the measured passes")
    parser.add_argument("--ids", type=int, default=20000, help="of the vocabulary, from which prompts are drawn")
    parser.add_argument("--kv-memory-gb", type=float, default=0.25, help="of the server")
    parser.add_argument("--json")
    args = parser.parse_args()
    draw = random.Random(5)
    rows = {batch: [] for batch in args.batches}
    server = served.Server(args.stoa, args.model, max(args.batches), "--max-context", args.max_context, "--kv-memory-gb", args.kv_memory_gb)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def answer(batch):
            def seconds(tokens): return server.run([[draw.randrange(100, args.ids) for _ in range(args.input)] for _ in range(batch)], tokens)
            seconds(8)  # after a pause, processors have to fetch everything again
            return batch * args.output / seconds(args.output)

        def measure(file):
            (folder / file).write_text(common.output(args.stoa, "bench", "engine", args.model, "--max-context", args.max_context, "--json"))

        def predict(file, batch):
            return json.loads(common.output(args.stoa, "plan", "inference", "--measured", folder / file, "--input", args.input, "--output", args.output, "--batch", batch,
                                            "--json"))["grid"][0]["tokens_per_second_per_device"]

        for _ in range(4): answer(max(args.batches))
        for number in range(args.rounds):
            measure("before.json")
            answers = {batch: answer(batch) for batch in args.batches}
            measure("after.json")
            for batch, seen in answers.items():
                both = [predict(file, batch) for file in ("before.json", "after.json")]
                rows[batch].append({"predicted": statistics.mean(both), "both": both, "seen": seen})
                print(f"round {number + 1}, {batch} texts: predicted {both[0]:.1f} before, {both[1]:.1f} after, seen {seen:.1f} tokens/s", file=sys.stderr, flush=True)
    server.stop()
    for batch, each in rows.items():
        ratio = statistics.median(row["predicted"] / row["seen"] for row in each)
        print(f"{batch} texts: predicted {statistics.median(row['predicted'] for row in each):.1f}, seen {statistics.median(row['seen'] for row in each):.1f} tokens/s, "
              f"median of the ratios {ratio:.2f}")
    common.save({**common.facts(), "benchmark": "plan_inference", "model": pathlib.Path(args.model).name, "input": args.input, "output": args.output,
                 "batches": rows}, args.json)


if __name__ == "__main__":
    main()
