#!/usr/bin/env python3
"""What `stoa plan inference --measured` predicts, beside what the engine does: tokens per second of batches.

  python bench/serve/plan_inference.py --model SmolLM2-135M-Instruct.Q4_1.gguf [--batches 1 8 32] [--input 128] [--output 64] [--rounds 3] [--json FILE]

In every round, passes of the engine are measured (`stoa bench engine`), batches are answered by `stoa generate --prompts`, with new prompts that no cache has, and passes are measured again. What
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 8, 32])
    parser.add_argument("--input", type=int, default=128, help="words of a prompt")
    parser.add_argument("--output", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--max-context", type=int, default=512, help="of the measured passes")
    parser.add_argument("--json")
    args = parser.parse_args()
    draw = random.Random(5)
    rows = {batch: [] for batch in args.batches}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def answer(batch, number):
            file = folder / f"{batch}-{number}.jsonl"
            rate = common.answer_prompts(args.stoa, args.model, common.prompts_of_words(draw, batch, args.input), args.output, file)
            lengths = [len(json.loads(line)["prompt_ids"]) for line in file.with_suffix(".out").read_text().splitlines()]
            return rate, round(statistics.mean(lengths))

        def measure(file):
            (folder / file).write_text(common.output(args.stoa, "bench", "engine", args.model, "--max-context", args.max_context, "--rounds", 3, "--json"))

        def predict(file, batch, length):
            return json.loads(common.output(args.stoa, "plan", "inference", "--measured", folder / file, "--input", length, "--output", args.output, "--batch", batch,
                                            "--json"))["grid"][0]["tokens_per_second_per_device"]

        for number in range(args.rounds):
            measure("before.json")
            answers = {batch: answer(batch, number) for batch in args.batches}
            measure("after.json")
            for batch, (seen, length) in answers.items():
                both = [predict(file, batch, length) for file in ("before.json", "after.json")]
                rows[batch].append({"prompt_tokens": length, "predicted": statistics.mean(both), "both": both, "seen": seen})
                print(f"round {number + 1}, {batch} texts: predicted {both[0]:.1f} before, {both[1]:.1f} after, seen {seen:.1f} tokens/s", file=sys.stderr, flush=True)
    for batch, each in rows.items():
        ratio = statistics.median(row["predicted"] / row["seen"] for row in each)
        print(f"{batch} texts: predicted {statistics.median(row['predicted'] for row in each):.1f}, seen {statistics.median(row['seen'] for row in each):.1f} tokens/s, "
              f"median of the ratios {ratio:.2f}")
    common.save({**common.facts(), "benchmark": "plan_inference", "model": pathlib.Path(args.model).name, "input": args.input, "output": args.output,
                 "batches": rows}, args.json)


if __name__ == "__main__":
    main()
