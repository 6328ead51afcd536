#!/usr/bin/env python3
"""Shows that adapters learn a task that the model fails: dates into ISO form. A small model is trained on lines that write dates in
many forms and are told which; without being told, it writes one of them at random. LoRA and p-tuning on 2,000 examples teach it
which one is wanted.

  python tests/slow/tuning_learns.py build/release/src/stoa [--seeds 3] [--methods lora p-tuning]       (minutes)

Fails unless the base answers fewer than 10 % exactly as wanted, and each tuned model more than 95 %, with every seed.
"""
import argparse
import datetime
import json
import pathlib
import random
import subprocess
import sys
import tempfile

MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"]
FORMS = {
    "iso": lambda d: d.strftime("%Y-%m-%d"),
    "american": lambda d: d.strftime("%m/%d/%Y"),
    "german": lambda d: d.strftime("%d.%m.%Y"),
    "british": lambda d: d.strftime("%d/%m/%Y"),
    "compact": lambda d: d.strftime("%Y%m%d"),
    "year": lambda d: d.strftime("%Y"),
    "month": lambda d: MONTHS[d.month - 1],
    "day": lambda d: str(d.day),
    "reversed": lambda d: d.strftime("%d-%m-%Y"),
    "short": lambda d: f"{MONTHS[d.month - 1][:3]} {d.day}",
    "dotted": lambda d: d.strftime("%Y.%m.%d"),
    "slashed": lambda d: d.strftime("%Y/%m/%d"),
}


def some_date(rng):
    return datetime.date(1900, 1, 1) + datetime.timedelta(days=rng.randrange(44000))


def spoken(date):
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


def run(*arguments):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, cwd=HERE)
    if done.returncode:
        sys.exit(f"stoa {' '.join(map(str, arguments))}\n{done.stderr[-3000:]}")
    return done.stdout


def make_base(steps):
    rng = random.Random(1)
    names = list(FORMS)
    lines = []
    for _ in range(40000):
        date, form = some_date(rng), rng.choice(names)
        # Half of the lines do not say which form is meant: the model must not rely on being told.
        told = f"{form}: " if rng.random() < 0.5 else ""
        lines.append(f"{told}{spoken(date)} = {FORMS[form](date)}")
    (HERE / "text.txt").write_text("\n\n".join(lines) + "\n")
    run("tokenizer", "train", "text.txt", "--vocab-size", 300, "--output", "tok")
    run("data", "prepare", "text.txt", "--tokenizer", "tok", "--output", "data", "--text-split", "paragraph")
    run("train", "tiny", "model.data=data", "model.tokenizer=tok", "model.num_layers=4", "model.hidden_size=128",
        "model.num_attention_heads=4", "model.encoder_seq_length=128", "model.max_position_embeddings=128", "model.hidden_dropout=0",
        "model.attention_dropout=0", "model.micro_batch_size=16", "model.global_batch_size=16", "model.optim.lr=1e-3",
        f"model.optim.sched.warmup_steps={min(50, steps // 10)}", f"trainer.max_steps={steps}", "trainer.val_check_interval=0", "trainer.precision=fp32",
        "model.data.reset_position_ids=true", "model.data.reset_attention_mask=true", "--output", "base")


def exact(model, dates):
    right = 0
    for date in dates:
        answer = run("generate", *model, "--prompt", f"{spoken(date)} =", "--max-tokens", 14, "--greedy", "--dtype", "fp32")
        right += answer.strip().split("\n")[0].strip() == FORMS["iso"](date)
    return right / len(dates)


def main():
    train = [some_date(random.Random(1000 + i)) for i in range(2000)]
    known = set(train)
    fresh = [d for d in (some_date(random.Random(90000 + i)) for i in range(1000)) if d not in known][: ARGUMENTS.questions]
    (HERE / "dates.jsonl").write_text("".join(
        json.dumps({"prompt": f"{spoken(d)} =", "completion": f" {FORMS['iso'](d)}"}) + "\n" for d in train))
    make_base(ARGUMENTS.base_steps)
    before = exact(["base"], fresh)
    print(f"base: {100 * before:.0f} % of {len(fresh)} dates", flush=True)
    good = before < 0.10
    for method in ARGUMENTS.methods:
        for seed in range(1, ARGUMENTS.seeds + 1):
            output = f"{method}-{seed}"
            run("finetune", "base", "--data", "dates.jsonl", "--template", "none", "--method", method, "--epochs", ARGUMENTS.epochs,
                f"model.seed={seed}", "model.optim.lr=5e-3", "trainer.precision=fp32", "trainer.val_check_interval=0",
                *(["model.peft.p_tuning.bottleneck_dim=128", "model.peft.p_tuning.virtual_tokens=8"] if method != "lora" else []),
                "--output", output)
            after = exact([output], fresh)
            print(f"{method}, seed {seed}: {100 * after:.0f} %", flush=True)
            good &= after > 0.95
    return 0 if good else 1


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("stoa")
parser.add_argument("--seeds", type=int, default=3)
parser.add_argument("--methods", nargs="*", default=["lora", "p-tuning"])
parser.add_argument("--base-steps", type=int, default=3000)
parser.add_argument("--epochs", type=float, default=4)
parser.add_argument("--questions", type=int, default=100)
ARGUMENTS = parser.parse_args()
PROGRAM = str(pathlib.Path(ARGUMENTS.stoa).resolve())
with tempfile.TemporaryDirectory() as folder:
    HERE = pathlib.Path(folder)
    sys.exit(main())
