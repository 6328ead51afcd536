#!/usr/bin/env python3
"""Tuning on a CPU beside PEFT + TRL, in turns, on the same samples.

  python bench/tuning.py [--python PYTHON] [--base DIR] [--turns "stoa lora,trl packed"] [--rounds 2] [--steps 4] [--json FILE]
      [--wait-for FILE]

Without --base the model is a llama of 135 million weights with random values (`--layers` makes it smaller), bf16. Samples are prompts
with completions, of lengths as chats have them (log-normal, median 180 tokens). Adapters are LoRA of all linear layers, rank 16. Per
round each turn is a process of its own, so that its peak memory is its own:

  stoa METHOD                        `stoa finetune --method METHOD`, packed: lora, full, qlora, dora, ia3, adapter, prompt, p-tuning, prefix
  trl packed, trl padded             PEFT + TRL, packed (bfd) or padded
  torch full                         all weights by TRL, packed, with torch.compile: one process for all rounds, which compiles before the first
  stoa pairs, stoa dpo               LoRA on both answers of preference pairs as plain samples, and as pairs with `--objective dpo`
  stoa start                         `stoa finetune` on 10,000 chats, one step: seconds until it begins

Speed is trained tokens per second of the fastest step after the first, over all rounds: what else a shared machine does makes steps
slower, never faster. `--wait-for FILE`: what compiles has done so, then the turns wait until FILE exists, for the moment when the machine
is quiet. Memory is the largest peak. `--python` needs torch, transformers, peft, trl and
datasets; the last three for the peers' turns alone.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time

import common

LENGTH, ROWS = 1024, 4  # tokens of a row, rows of a step
HIDDEN, FFN = 576, 1536
METHODS = ("lora", "full", "qlora", "dora", "ia3", "adapter", "prompt", "p-tuning", "prefix")
WORDS = "the road stone river answer question number house walks counts every under between seven".split()


def make_inputs(folder, args):
    rng = random.Random(3)
    text = lambda words: " ".join(rng.choice(WORDS) for _ in range(max(2, words)))

    def samples(count):
        for _ in range(count):
            tokens = min(900, int(rng.lognormvariate(5.2, 0.7)))
            yield text(tokens // 3), " " + text(tokens - tokens // 3)

    def write(name, records):
        (folder / name).write_text("".join(json.dumps(record) + "\n" for record in records))

    write("chats.jsonl", ({"prompt": p, "completion": c} for p, c in samples(args.samples)))
    pairs = [(p, c, " " + text(len(c.split()))) for p, c in samples(args.samples // 5)]
    write("pairs.jsonl", ({"prompt": p, "chosen": c, "rejected": r} for p, c, r in pairs))
    write("answers.jsonl", ({"prompt": p, "completion": x} for p, c, r in pairs for x in (c, r)))
    write("many.jsonl", ({"prompt": p, "completion": c} for p, c in samples(10000)))
    if args.base:
        (folder / "base").symlink_to(pathlib.Path(args.base).resolve())
        return
    (folder / "text.txt").write_text("\n\n".join(text(40) for _ in range(400)))
    common.output(args.stoa, "tokenizer", "train", folder / "text.txt", "--vocab-size", 400, "--output", folder / "tok")
    common.output(args.python, "-c", f"""
import transformers
config = transformers.LlamaConfig(vocab_size=49152, hidden_size={HIDDEN}, intermediate_size={FFN}, num_hidden_layers={args.layers},
    num_attention_heads=9, num_key_value_heads=3, max_position_embeddings={LENGTH}, tie_word_embeddings=True, bos_token_id=None,
    eos_token_id=0, pad_token_id=0)
transformers.LlamaForCausalLM(config).bfloat16().save_pretrained({str(folder / "base")!r})
""")
    for file in (folder / "tok").iterdir():
        (folder / "base" / file.name).write_bytes(file.read_bytes())


def measured(*command):
    """stdout, stderr and the peak memory of the process in bytes."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        process = subprocess.Popen([str(part) for part in command], stdout=out, stderr=err, text=True)
        _, status, usage = os.wait4(process.pid, 0)
        out.seek(0), err.seek(0)
        texts = out.read(), err.read()
    if status:
        sys.exit(f"{' '.join(map(str, command))}\n{texts[1][-3000:]}")
    return *texts, usage.ru_maxrss * 1024


def finetune(folder, args, output, method, data, *more):
    if "lora" in method or method == "dora": more += ("model.peft.lora_tuning.adapter_dim=16",)
    return measured(
        args.stoa, "finetune", folder / "base", "--data", folder / data, "--template", "none", "--method", method, "--length", LENGTH,
        "--epochs", 50, f"model.global_batch_size={ROWS}", "model.micro_batch_size=1", "trainer.precision=bf16",
        "trainer.val_check_interval=0", "trainer.log_every_n_steps=1", f"trainer.num_threads={args.threads}", *more, "--output", output)


def stoa_run(folder, args, number, method, data="chats.jsonl", *more):
    output = folder / f"run-{method}-{data}-{len(more)}-{number}"
    _, said, peak = finetune(folder, args, output, method, data, "--stop-after", args.steps, *more)
    rows, trained, unit = re.search(r"samples in (\d+) rows .*; ([\d.]+)\s*([kKM]?) tokens trained per epoch", said).groups()
    per_step = float(trained) * {"": 1, "k": 1e3, "K": 1e3, "M": 1e6}[unit] / int(rows) * ROWS
    seconds = [line["step_seconds"] for line in map(json.loads, open(output / "metrics.jsonl", encoding="utf-8"))
               if line.get("step", 0) > 1 and "step_seconds" in line]
    step = min(seconds)
    return {"tokens_per_second": per_step / step, "step_seconds": step, "peak_bytes": peak}


def stoa_start(folder, args, number):
    """Seconds from the call until the first step begins."""
    output = folder / f"run-start-{number}"
    began = time.time()
    finetune(folder, args, output, "lora", "many.jsonl", "--stop-after", 1)
    line = next(line for line in map(json.loads, open(output / "metrics.jsonl", encoding="utf-8")) if line.get("step") == 1)
    logged = (output / "metrics.jsonl").stat().st_mtime
    return {"seconds_to_step": logged - line["step_seconds"] - began, "step_seconds": line["step_seconds"]}


def quantised_bytes(folder, args):
    """Bytes per number of the matrices that nf4 holds, by the exact memory plan."""
    def weights(*more):
        plan = json.loads(common.output(args.stoa, "plan", "memory", folder / "base", "model.peft.peft_scheme=lora", "trainer.precision=bf16",
                                        f"model.encoder_seq_length={LENGTH}", *more, "--json"))
        return plan["bytes"]["weights"]
    numbers = args.layers * (2 * HIDDEN * HIDDEN + 2 * HIDDEN * HIDDEN // 3 + 3 * HIDDEN * FFN)
    return (weights("model.peft.quantize_base=nf4") - weights() + 2 * numbers) / numbers


class CompiledPeer:
    """`torch full`: warm from the start; takes its steps when its turn comes."""

    def __init__(self, folder, args):
        self.process = subprocess.Popen([*map(str, peer_command(folder, args, "full"))], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.answer("warm")

    def answer(self, wanted):
        for line in self.process.stdout:  # the peer prints a log, too
            if line.startswith(wanted): return line
        sys.exit("torch full: ended before its turn")

    def __call__(self, *_):
        print("go", file=self.process.stdin, flush=True)
        return json.loads(self.answer('{"tokens_per_second"'))

    def end(self):
        self.process.stdin.close()
        self.process.kill()
        self.process.wait()


def peer_command(folder, args, mode):
    return [args.python, pathlib.Path(__file__).with_name("tuning_peer.py"), folder, mode, args.threads, args.steps, LENGTH, ROWS]


def peer_run(folder, args, number, mode):
    out, _, peak = measured(*peer_command(folder, args, mode))
    return {**json.loads(out.strip().splitlines()[-1]), "peak_bytes": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--python", default="python3", help="a Python that has PyTorch, transformers, PEFT, TRL and datasets")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--samples", type=int, default=400)
    parser.add_argument("--base", help="a model directory in place of random weights, such as SmolLM2-135M")
    parser.add_argument("--wait-for", type=pathlib.Path, help="a file")
    parser.add_argument("--turns", help="comma-separated; without it all of the comparisons")
    parser.add_argument("--json")
    args = parser.parse_args()
    turns = {"trl packed": lambda *a: peer_run(*a, "packed"),
             "trl padded": lambda *a: peer_run(*a, "padded"), "torch full": None,
             "stoa pairs": lambda *a: stoa_run(*a, "lora", "answers.jsonl"),
             "stoa dpo": lambda *a: stoa_run(*a, "lora", "pairs.jsonl", "--objective", "dpo"), "stoa start": stoa_start,
             **{f"stoa {method}": lambda *a, method=method: stoa_run(*a, method) for method in METHODS}}
    names = args.turns or "stoa lora,trl packed,trl padded,stoa full,torch full,stoa qlora,stoa pairs,stoa dpo,stoa start"
    turns = {name.strip(): turns[name.strip()] for name in names.split(",")}
    found = {name: [] for name in turns}
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_inputs(folder, args)
        compiled = CompiledPeer(folder, args) if "torch full" in turns else None
        if compiled: turns["torch full"] = compiled
        if args.wait_for:
            print("waiting", file=sys.stderr, flush=True)
            while not args.wait_for.exists(): time.sleep(0.2)
        for number in range(args.rounds):
            for turn, run in turns.items():
                found[turn].append(run(folder, args, number))
                print(f"round {number + 1}, {turn}: {found[turn][-1]}", file=sys.stderr, flush=True)
        if compiled: compiled.end()
        frozen = quantised_bytes(folder, args) if "stoa qlora" in turns else None
    best = {"tokens_per_second": max, "step_seconds": min, "peak_bytes": max, "seconds_to_step": min}
    results = {turn: {key: best[key](row[key] for row in rows) for key in rows[0]} for turn, rows in found.items()}
    ratios = {"speed_over_trl_packed": ("tokens_per_second", "stoa lora", "trl packed"),
              "speed_over_trl_padded": ("tokens_per_second", "stoa lora", "trl padded"),
              "memory_over_trl_packed": ("peak_bytes", "stoa lora", "trl packed"),
              "lora_step_over_full_step": ("step_seconds", "stoa lora", "stoa full"),
              "full_speed_over_torch": ("tokens_per_second", "stoa full", "torch full"),
              "seconds_per_token_dpo_over_sft": ("tokens_per_second", "stoa pairs", "stoa dpo"),
              "qlora_speed_over_lora": ("tokens_per_second", "stoa qlora", "stoa lora"),
              "qlora_memory_over_lora": ("peak_bytes", "stoa qlora", "stoa lora")}
    common.save({**common.facts(), "benchmark": "tuning", "layers": args.layers, "sequence": LENGTH, "rows": ROWS, "rounds": args.rounds,
                 "steps": args.steps, "threads": args.threads, **results, "nf4_bytes_per_number": frozen,
                 **{name: results[ours][key] / results[theirs][key] for name, (key, ours, theirs) in ratios.items()
                    if ours in results and theirs in results}}, args.json)


main()
