#!/usr/bin/env python3
"""Linear attention (convolution and gated delta rule), forward and forward+backward, beside transformers' PyTorch path for CPUs
(chunks of 64), alternating in one run.

  python bench/linear_attention.py --stoa build/release/src/stoa [--dtype bf16] [--threads 2] [--rounds 3] [--json FILE]

Prints a JSON object per shape with the medians of the rounds in milliseconds and the ratio. Needs: pip install torch transformers
"""
import argparse
import json
import os
import statistics
import subprocess
import time

SHAPES = [(4, 1024, 4, 8), (1, 4096, 16, 32)]  # texts, tokens, key heads, value heads: those of `stoa bench ops`
WIDTH, TAPS = 128, 4


def peer_seconds(shape, dtype, repeat):
    import torch
    from transformers.models.qwen3_next import modeling_qwen3_next as reference
    texts, tokens, keys, values = shape
    columns = (2 * keys + values) * WIDTH
    x = torch.randn(texts, columns, tokens, dtype=dtype, requires_grad=True)
    weight = torch.randn(columns, TAPS, dtype=dtype, requires_grad=True)
    a, b = (torch.randn(texts, tokens, values, dtype=dtype, requires_grad=True) for _ in range(2))
    decay, bias = (torch.randn(values, requires_grad=True) for _ in range(2))
    dout = torch.randn(texts, tokens, values, WIDTH, dtype=dtype)

    def forward():
        mixed = reference.causal_conv1d_fn(x, weight, None, activation="silu").transpose(1, 2)
        q, k, v = torch.split(mixed, [keys * WIDTH, keys * WIDTH, values * WIDTH], dim=-1)
        g = -decay.exp() * torch.nn.functional.softplus(a.float() + bias)
        heads = [t.reshape(texts, tokens, -1, WIDTH) for t in (q, k, v)]
        return reference.torch_chunk_gated_delta_rule(*heads, g=g, beta=b.sigmoid(), use_qk_l2norm_in_kernel=True)[0]

    times = {False: [], True: []}
    for backward in (False, True):
        for _ in range(repeat + 1):
            start = time.perf_counter()
            with torch.set_grad_enabled(backward):
                out = forward()
            if backward:
                out.backward(dout)
            times[backward].append(time.perf_counter() - start)
    return [statistics.median(times[backward][1:]) for backward in (False, True)]


def stoa_seconds(args):
    lines = subprocess.run([args.stoa, "bench", "ops", "linear_attention", "--json", "--dtype", args.dtype, "--threads",
                            str(args.threads), "--repeat", str(args.repeat)], check=True, capture_output=True, text=True).stdout
    return {(r["b"], r["s"], r["key_heads"], r["value_heads"], r["op"]): r["ms"] / 1e3
            for r in map(json.loads, lines.splitlines()) if "key_heads" in r}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", required=True)
    parser.add_argument("--dtype", default="bf16", choices=["bf16", "fp32"])
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", help="file for the figures")
    args = parser.parse_args()
    import torch
    torch.set_num_threads(args.threads)
    dtype = dict(bf16=torch.bfloat16, fp32=torch.float32)[args.dtype]
    ours, theirs = {}, {}
    for _ in range(args.rounds):
        for key, seconds in stoa_seconds(args).items():
            ours.setdefault(key, []).append(seconds)
        for shape in SHAPES:
            for op, seconds in zip(("linear attention forward", "linear attention forward+backward"),
                                   peer_seconds(shape, dtype, args.repeat)):
                theirs.setdefault((*shape, op), []).append(seconds)
    result = []
    for key, rounds in ours.items():
        mine, peer = statistics.median(rounds), statistics.median(theirs[key])
        texts, tokens, keys, values, op = key
        result.append(dict(op=op, texts=texts, tokens=tokens, key_heads=keys, value_heads=values, dtype=args.dtype,
                           stoa_ms=round(mine * 1e3, 1), peer_ms=round(peer * 1e3, 1), ratio=round(peer / mine, 2)))
        print(json.dumps(result[-1]), flush=True)
    if args.json:
        with open(args.json, "w") as f:
            json.dump(dict(threads=args.threads, torch=torch.__version__, shapes=result), f, indent=1)
            f.write("\n")


if __name__ == "__main__":
    main()
