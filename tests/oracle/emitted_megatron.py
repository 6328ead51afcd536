#!/usr/bin/env python3
"""Commands that `stoa plan search --emit megatron` writes, before Megatron-LM's own parse_args and validate_args (no GPU is needed).

Every configuration below is searched on a cluster; the script that Stoa writes is run by bash with a `torchrun` that prints its
arguments, so that what Megatron sees is what a shell passes to it. Sizes, batch and precision that Megatron reads there must be those
of the corpus, which no plan changes.

  python3 tests/oracle/emitted_megatron.py --megatron DIR [--stoa build/release/src/stoa] [--corpus [N]]
                       # DIR: a copy of Megatron-LM; needs PyTorch. --corpus: command lines of the corpus, too (all, or the first N)
"""
import argparse
import json
import os
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import megatron_facts

# Presets of the kinds that Megatron-LM trains, with devices that hold them.
PRESETS = [("gpt-5b", 64, []), ("gpt-175b", 1024, []), ("llama-7b", 16, []), ("llama3-8b", 16, []), ("llama3-70b", 64, []),
           ("mixtral-8x7b", 64, []), ("gpt-20b", 64, ["model.fp8=hybrid", "model.fp8_recipe=delayed"]),
           ("gpt-126m", 8, ["model.optim.name=sgd"]), ("llama-1b", 8, ["model.window_size=1024"]),
           ("gpt-126m", 8, ["trainer.precision=fp16", "trainer.max_steps=100", "model.optim.sched.warmup_steps=10",
                            "model.optim.sched.constant_steps=0", "model.optim.sched.name=WSD",
                            "model.optim.sched.wsd_decay_steps=10"])]


def words_of(script):
    """What torchrun gets: the program of Megatron and its arguments."""
    with tempfile.TemporaryDirectory() as folder:
        fake = pathlib.Path(folder) / "torchrun"
        fake.write_text("#!/bin/bash\nprintf '%s\\0' \"$@\"\n")
        fake.chmod(0o755)
        file = pathlib.Path(folder) / "megatron.sh"
        file.write_text(script)
        out = subprocess.run(["bash", str(file)], check=True, capture_output=True, text=True,
                             env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "MASTER_ADDR": "localhost"}).stdout
    words = out.split("\0")[:-1]
    start = next(i for i, w in enumerate(words) if w.endswith(".py"))
    return words[start + 1:]


PROGRAMS = {"gpt": "pretrain_gpt.py", "bert": "pretrain_bert.py", "t5": "pretrain_t5.py"}
KEPT = ("layers", "hidden", "heads", "groups", "ffn", "seq", "experts", "topk", "global", "precision")  # whatever the layout is


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--megatron", metavar="DIR", required=True)
    options.add_argument("--stoa", default="build/release/src/stoa")
    options.add_argument("--corpus", type=int, nargs="?", const=10**6, default=0)
    options = options.parse_args()
    read = megatron_facts.megatron(options.megatron)
    cases = [(name, "gpt", devices, [name, *changes], {}) for name, devices, changes in PRESETS]
    for entry in json.loads(megatron_facts.CORPUS.read_text())[:options.corpus]:
        words = f"{PROGRAMS[entry['kind']]} {entry['arguments']}"
        cases.append((entry["path"], entry["kind"], entry["ranks"], ["--from-megatron", words], entry["facts"]))
    accepted, refused, failed = 0, [], []
    for name, kind, devices, source, facts in cases:
        emitted = subprocess.run([options.stoa, "plan", "search", *source, "--cluster", "dgx-h100", "--gpus", str(devices), "--top", "1",
                                  "--emit", "megatron"], capture_output=True, text=True)
        if emitted.returncode:
            refused.append(f"{name}: {' '.join(emitted.stderr.split())[-300:]}")
            continue
        try:
            theirs = read({"ranks": devices, "kind": kind, "arguments": shlex.join(words_of(emitted.stdout))})
        except BaseException as error:  # it asserts, exits and raises
            failed.append(f"{name}: {str(error)[:300]}")
            continue
        differ = {k: (facts[k], theirs.get(k)) for k in KEPT if k in facts and facts[k] != theirs.get(k)}
        if differ:
            failed.append(f"{name}: (given, written) {differ}")
            continue
        accepted += 1
        print(f"{name}: accepted, TP{theirs['tp']} PP{theirs['pp']} VPP{theirs['vpp']} CP{theirs['cp']} EP{theirs['ep']} "
              f"micro {theirs['micro']} {theirs['recompute']}", flush=True)
    print(f"{len(cases)} plans: Megatron's own validate_args accepts {accepted}; not written {len(refused)}; rejected {len(failed)}")
    print("\n".join(["  not written: " + r for r in refused] + ["  rejected: " + f for f in failed]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
