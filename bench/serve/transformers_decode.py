#!/usr/bin/env python3
"""Peer measurement: one text of a GPT-2 model with initial weights, by transformers on a GPU: generate() with torch.compile over
a static cache, and without. Beside `stoa bench decode gpt2-124m trainer.precision=bf16 --backend cuda --cuda graphs --tokens 128`.

  python bench/serve/transformers_decode.py [--layers 12 --hidden 768 --heads 12 --prompt 32 --tokens 128 --rounds 3]
Needs: pip install torch transformers
"""
import argparse
import json
import statistics
import time

import torch
import transformers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--prompt", type=int, default=32)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(1)
    config = transformers.GPT2Config(n_layer=args.layers, n_embd=args.hidden, n_head=args.heads, n_positions=1024, vocab_size=50257,
                                     attn_implementation="sdpa")
    model = transformers.GPT2LMHeadModel(config).to("cuda", torch.bfloat16).eval()
    model.generation_config.pad_token_id = 0
    model.generation_config.eos_token_id = None
    prompt = torch.randint(0, 50257, (1, args.prompt), device="cuda")
    for mode, options in {"torch.compile, static cache": {"cache_implementation": "static"}, "eager": {}}.items():
        rates = []
        for turn in range(args.rounds + 1):  # the first one compiles
            torch.cuda.synchronize()
            begin = time.perf_counter()
            model.generate(prompt, max_new_tokens=args.tokens, min_new_tokens=args.tokens, do_sample=False, **options)
            torch.cuda.synchronize()
            if turn > 0:
                rates.append(args.tokens / (time.perf_counter() - begin))
        print(json.dumps({"peer": f"transformers {transformers.__version__}, torch {torch.__version__}, generate, {mode}",
                          "layers": args.layers, "hidden": args.hidden, "tokens": args.tokens,
                          "tokens_per_second": round(statistics.median(rates), 1), "rounds": [round(r, 1) for r in rates]}), flush=True)


if __name__ == "__main__":
    main()
