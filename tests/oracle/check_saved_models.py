#!/usr/bin/env python3
"""Models of transformers read by Stoa, models of Stoa read by transformers: the same log-probabilities.

For gpt2, llama (grouped queries, untied), mistral (sliding window), qwen2 and qwen3, with random weights:
  read      transformers saves, `stoa score --dtype fp32` scores it: log-probabilities within 1e-4 of transformers'
  trained   `stoa train` starts from it and takes a few steps in fp32 and in bf16; transformers loads checkpoints/latest/model
            without a missing or unexpected tensor; fp32 arithmetic of both on what was saved within 1e-4
  bf16      bf16 arithmetic of both on the model trained in bf16: root-mean-square distance of Stoa from the fp32 result at most 1.5
            times that of transformers (two correct roundings of the same network are this far apart, no closer)
  exported  `stoa checkpoint export --dtype fp32`: the same log-probabilities, loaded by transformers
With --stories DIR (a directory of a small Llama with its tokenizer): greedy generation of 50 tokens, identical ids, and scores.
With --gpt2: a random model of GPT-2's size.

  python tests/oracle/check_saved_models.py [--stoa build/release/src/stoa] [--stories DIR] [--gpt2] [--json FILE]

Run it under transformers 4.x and 5.x alike. Needs: pip install torch transformers. Exit status 1 when anything is too far.
"""
import argparse
import json
import pathlib
import tempfile

import numpy as np
import torch
import transformers

import oracle

TOLERANCE = 1e-4


class Report:
    def __init__(self):
        self.rows = []

    def add(self, model, check, difference, allowed, unit="max |difference| of log-probabilities"):
        self.rows.append({"model": model, "check": check, "value": float(difference), "allowed": allowed, "unit": unit,
                          "passed": bool(difference <= allowed)})
        print(f"{model:12} {check:34} {difference:10.3g}  allowed {allowed:8.3g}  {'ok' if difference <= allowed else 'TOO FAR'}",
              flush=True)


def texts_for(vocabulary, positions, count=3):
    rng = np.random.default_rng(5)
    return [rng.integers(0, vocabulary, n).tolist() for n in (positions, 2, positions // 3 + 1)[:count]]


def difference(ours, theirs):
    return max(float(np.max(np.abs(a - b))) for a, b in zip(ours, theirs))


def rms(ours, theirs):
    both = np.concatenate([a - b for a, b in zip(ours, theirs)])
    return float(np.sqrt(np.mean(both**2)))


def load_strictly(directory, dtype=torch.float32):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(str(directory), dtype=dtype, attn_implementation="eager",
                                                                    output_loading_info=True)
    bad = {k: sorted(v) for k, v in info.items() if v}
    if bad: raise SystemExit(f"{directory}: transformers finds {bad}")
    return model.eval()


def check_family(name, stoa, folder, report):
    theirs, ours = oracle.FAMILIES[name]()
    model = oracle.make_model(theirs, spread=0.05)
    saved = folder / "saved"
    model.save_pretrained(saved)
    texts = texts_for(theirs.vocab_size, 128)
    expected = [oracle.logprobs(model, t) for t in texts]
    report.add(name, "read", difference(oracle.score(stoa, saved, texts, "fp32"), expected), TOLERANCE)

    rng = np.random.default_rng(6)
    oracle.write_corpus(folder / "corpus", [rng.integers(0, theirs.vocab_size, n) for n in rng.integers(20, 400, 60)])
    for precision in ("fp32", "bf16"):
        run = folder / f"run-{precision}"
        oracle.write_config(folder / f"{precision}.yaml", ours, folder / "corpus",
                            {"max_steps": 6, "precision": precision, "val_check_interval": 0}, {"name": "adamw", "lr": 1e-3},
                            weights=saved)
        oracle.call(stoa, "train", folder / f"{precision}.yaml", "--output", run)
        directory = run / "checkpoints" / "latest" / "model"
        trained = load_strictly(directory)
        assert trained.config.model_type == name, trained.config.model_type
        expected = [oracle.logprobs(trained, t) for t in texts]
        moved = difference(expected, [oracle.logprobs(model, t) for t in texts])
        assert moved > 1e-2, f"training changed nothing ({moved})"
        report.add(name, f"trained in {precision}, fp32 arithmetic", difference(oracle.score(stoa, run, texts, "fp32"), expected),
                   TOLERANCE)
        if precision == "bf16":
            half = load_strictly(directory, torch.bfloat16)
            distance = rms(oracle.score(stoa, run, texts, "bf16"), expected)
            report.add(name, "trained in bf16, bf16 arithmetic", distance,
                       1.5 * rms([oracle.logprobs(half, t) for t in texts], expected), "RMS distance from fp32")
        exported = folder / f"exported-{precision}"
        oracle.call(stoa, "checkpoint", "export", run, "--dtype", "fp32", "--output", exported)
        again = load_strictly(exported)
        report.add(name, f"exported from {precision}", difference([oracle.logprobs(again, t) for t in texts], expected), TOLERANCE)


def check_stories(directory, stoa, report):
    prompt = "Once upon a time, there was a little"
    answer = json.loads(oracle.call(stoa, "generate", directory, "--prompt", prompt, "--greedy", "--max-tokens", 50, "--dtype", "fp32",
                                    "--json"))
    model = oracle.load_model(directory)
    tokenizer = transformers.AutoTokenizer.from_pretrained(directory)
    ids = tokenizer(prompt)["input_ids"]
    start = answer["prompt_ids"]
    report.add("stories260k", "prompt ids differ", float(start != ids), 0, "1: different")
    with torch.no_grad():
        out = model.generate(torch.tensor([start]), max_new_tokens=50, do_sample=False, num_beams=1,
                             pad_token_id=0)[0, len(start):].tolist()
    wrong = sum(a != b for a, b in zip(out, answer["ids"])) + abs(len(out) - len(answer["ids"]))
    report.add("stories260k", f"greedy, {len(out)} ids differ", wrong, 0, "ids")
    text = start + out
    report.add("stories260k", "score", difference(oracle.score(stoa, directory, [text], "fp32"), [oracle.logprobs(model, text)]),
               TOLERANCE)


def check_gpt2(stoa, folder, report):
    theirs, _ = oracle.gpt2(vocabulary=50257, layers=12, hidden=768, heads=12, positions=1024)
    model = oracle.make_model(theirs, spread=0.02)
    model.save_pretrained(folder)
    texts = texts_for(50257, 256, 2)
    report.add("gpt2 124M", "read", difference(oracle.score(stoa, folder, texts, "fp32"), [oracle.logprobs(model, t) for t in texts]),
               TOLERANCE)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=oracle.default_stoa())
    parser.add_argument("--families", nargs="+", default=list(oracle.FAMILIES), choices=list(oracle.FAMILIES))
    parser.add_argument("--stories")
    parser.add_argument("--gpt2", action="store_true")
    parser.add_argument("--json")
    args = parser.parse_args()
    print(f"torch {torch.__version__}, transformers {transformers.__version__}")
    report = Report()
    for name in args.families:
        with tempfile.TemporaryDirectory() as folder:
            check_family(name, args.stoa, pathlib.Path(folder), report)
    if args.stories: check_stories(args.stories, args.stoa, report)
    if args.gpt2:
        with tempfile.TemporaryDirectory() as folder:
            check_gpt2(args.stoa, folder, report)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"torch": torch.__version__, "transformers": transformers.__version__,
                                                       "checks": report.rows}, indent=1) + "\n")
    if not all(row["passed"] for row in report.rows): raise SystemExit(1)


if __name__ == "__main__":
    main()
