#!/usr/bin/env python3
"""Many texts at once on a CPU, in turns with transformers: the same model in bf16, the same prompts, the same number of tokens, as many threads.

  python bench/serve/transformers_batch.py --file SmolLM2-135M-Instruct.Q4_1.gguf [--texts 16] [--prompt 32] [--answer 48] [--rounds 3] [--json FILE]

FILE's weights are written as a Hugging Face model in bf16 (`stoa checkpoint export --dtype bf16`), which both programs read: `stoa generate --prompts` and transformers' generate(). Tokens per
second count from the first request to the last token, without loading. Needs: pip install torch transformers
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--file", required=True)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--texts", type=int, default=16)
    parser.add_argument("--prompt", type=int, default=32, help="words, of a token each")
    parser.add_argument("--answer", type=int, default=48, help="tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--json")
    args = parser.parse_args()
    import torch
    import transformers
    torch.set_num_threads(args.threads)
    draw = random.Random(11)
    rates = {"stoa": [], "transformers": []}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        common.output(args.stoa, "checkpoint", "export", args.file, "--dtype", "bf16", "--output", folder / "model")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.bfloat16).eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder / "model")
        model.generation_config.eos_token_id = None
        model.generation_config.pad_token_id = 0

        def ask_transformers(prompts, _):
            ids = torch.tensor([tokenizer.encode(prompt, add_special_tokens=False) for prompt in prompts])
            begin = time.perf_counter()
            with torch.inference_mode():
                out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=args.answer, min_new_tokens=args.answer, do_sample=False)
            assert out.shape[1] == ids.shape[1] + args.answer
            return args.texts * args.answer / (time.perf_counter() - begin)

        def ask_stoa(prompts, number):
            return common.answer_prompts(args.stoa, folder / "model", prompts, args.answer, folder / f"{number}.jsonl", "--threads", args.threads)

        for number in range(args.rounds + 1):  # the first one warms up
            prompts = common.prompts_of_words(draw, args.texts, args.prompt)
            for name, ask in (("stoa", ask_stoa), ("transformers", ask_transformers))[::-1 if number % 2 else 1]:
                rate = ask(prompts, number)
                if number > 0: rates[name].append(rate)
    ratio = statistics.median(a / b for a, b in zip(rates["stoa"], rates["transformers"]))
    medians = {name: statistics.median(values) for name, values in rates.items()}
    print(f"{args.texts} texts: stoa {medians['stoa']:.0f}, transformers {medians['transformers']:.0f} tokens/s, median of the ratios {ratio:.2f}")
    common.save({**common.facts(), "benchmark": "transformers_batch", "peer": f"transformers {transformers.__version__}, torch {torch.__version__}", "texts": args.texts,
                 "prompt": args.prompt, "answer": args.answer, "tokens_per_second": rates, "median_of_ratios": ratio}, args.json)


if __name__ == "__main__":
    main()
