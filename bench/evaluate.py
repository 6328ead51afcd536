#!/usr/bin/env python3
"""Questions of four choices asked of a model of 135 million parameters (the shape of SmolLM2-135M, random weights) by `stoa eval run` and by
lm-evaluation-harness with transformers, in turns, on the CPU, offline.

  python bench/evaluate.py --python VENV/bin/python --texts TEXT.txt [--questions 1000] [--task TASK] [--shots N] [--dtype bf16] [--threads 2] [--rounds 3]
                           [--other STOA] [--json FILE]

The questions are made of the sentences of TEXT. hellaswag: a beginning of about 45 words and four endings of 3 to 9; mmlu_anatomy with
`--shots 5`: five questions with their answers before each question, and four letters to choose from. Wall time of the
whole command, start included, and of `stoa` the time to its first scored document. In fp32 metrics must be equal to all printed digits. `--other`: another
build of stoa, in turns too. `--python ""`: without lm-eval. Needs in that Python: lm_eval, transformers, torch.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import common

sys.path.insert(0, str(common.ROOT / "tests/oracle"))
import check_lm_eval as oracle  # noqa: E402

PEER = """
import json, pathlib, sys
sys.path.insert(0, sys.argv[1])
import check_lm_eval as oracle, lm_eval, torch
torch.set_num_threads(int(sys.argv[4]))
oracle.load_from(pathlib.Path(sys.argv[3]))
out = lm_eval.simple_evaluate(model="hf", model_args={"pretrained": sys.argv[2], "dtype": sys.argv[7]}, tasks=[sys.argv[8]], num_fewshot=int(sys.argv[9]),
                              batch_size=sys.argv[6],
                              device="cpu", limit=int(sys.argv[5]), bootstrap_iters=0)
print(json.dumps({k: v for k, v in out["results"][sys.argv[8]].items() if "," in k}, default=str))
"""
MODEL = """
import pathlib, sys
sys.path.insert(0, sys.argv[1])
import check_lm_eval as oracle, torch, transformers
target = pathlib.Path(sys.argv[2])
fast = oracle.made_tokenizer("llama", sys.argv[3], 49152)
fast.save_pretrained(target)
torch.manual_seed(1)
transformers.LlamaForCausalLM(transformers.LlamaConfig(
    vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30, num_attention_heads=9, num_key_value_heads=3,
    max_position_embeddings=2048, tie_word_embeddings=True, bos_token_id=fast.bos_token_id, eos_token_id=fast.eos_token_id,
    initializer_range=0.041666666666666664)).save_pretrained(target)
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--other", help="another build, in turns")
    parser.add_argument("--python", default="python3", help="a Python that has lm_eval; empty: without peer")
    parser.add_argument("--maker", help="a Python that has transformers, to make the model (default: --python)")
    parser.add_argument("--texts", required=True)
    parser.add_argument("--model", type=pathlib.Path, help="folder of the model; made if it is not there")
    parser.add_argument("--questions", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-batch", default="16")
    parser.add_argument("--task", default="hellaswag", help="any whose data tests/oracle/check_lm_eval.py makes: mmlu_anatomy …")
    parser.add_argument("--shots", type=int, default=0)
    parser.add_argument("--dtype", default="fp32", choices=("fp32", "bf16"), help="of weights and products; metrics are compared in fp32")
    parser.add_argument("--json")
    args = parser.parse_args()
    folder = str(common.ROOT / "tests/oracle")
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        oracle.made_documents(work / "data", oracle.sentences(pathlib.Path(args.texts)), args.questions, None)
        model = args.model or work / "model"
        if not (model / "config.json").exists():
            common.output(args.maker or args.python, "-c", MODEL, folder, model, args.texts)

        def ours(stoa):
            begin = time.time()
            answer = json.loads(common.output(stoa, "eval", "run", model, "--tasks", args.task, "--shots", args.shots, "--data", work / "data",
                                              "--limit", args.questions,
                                              "--bootstrap_iters", 0, "--dtype", args.dtype, "--threads", args.threads, "--json"))
            return {"seconds": time.time() - begin, "first": answer["config"]["first_answer_seconds"],
                    "results": {k: v for k, v in answer["results"][args.task].items() if "," in k}}

        def theirs():
            begin = time.time()
            text = common.output("env", f"OMP_NUM_THREADS={args.threads}", args.python, "-c", PEER, folder, model, work / "data", args.threads,
                                 args.questions, args.peer_batch, {"fp32": "float32", "bf16": "bfloat16"}[args.dtype], args.task, args.shots)
            return {"seconds": time.time() - begin, "results": json.loads(text.strip().splitlines()[-1])}

        runs = {"stoa": [], "other": [], "lm_eval": []}
        for _ in range(args.rounds):
            runs["stoa"].append(ours(args.stoa))
            if args.other: runs["other"].append(ours(args.other))
            if args.python: runs["lm_eval"].append(theirs())
    shown = lambda results: {k: oracle.printed(v) for k, v in results.items()}
    expected = shown(runs["stoa"][0]["results"])
    for name, list_ in runs.items():
        for run in list_:
            assert args.dtype != "fp32" or shown(run["results"]) == expected, (name, run["results"], expected)
    seconds = {name: statistics.median(r["seconds"] for r in list_) for name, list_ in runs.items() if list_}
    result = {**common.facts(), "benchmark": "evaluate", "questions": args.questions, "choices": 4, "threads": args.threads,
              "task": args.task, "shots": args.shots, "dtype": args.dtype, "peer_batch": args.peer_batch, "seconds": seconds,
              "results": runs["stoa"][0]["results"],
              "first_answer_seconds": statistics.median(r["first"] for r in runs["stoa"]),
              "runs": {name: [r["seconds"] for r in list_] for name, list_ in runs.items()}}
    for name in ("other", "lm_eval"):
        if name in seconds: result[f"times_faster_than_{name}"] = seconds[name] / seconds["stoa"]
    common.save(result, args.json)


if __name__ == "__main__":
    main()
