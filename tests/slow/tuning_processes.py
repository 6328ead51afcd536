#!/usr/bin/env python3
"""Tuning with ranks that are processes, by MPI and over TCP, beside ranks that are threads: the same adapter in every bit.

  python tests/slow/tuning_processes.py build/release/src/stoa [--methods lora …] [--links mpi tcp]       (minutes)

Every method of `stoa finetune`, full tuning by a teacher (taught, forward KL; reverse, with cross entropy) and the vectors of texts that
belong together (vectors), on 2 and 4 ranks: tensor, data (ZeRO 1) and pipeline parallelism, four stages and 2 x 2 among them. Also
compared with one rank, up to rounding. Fails at the first difference of processes and threads.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

METHODS = {"lora": [], "dora": [], "qlora": [], "ia3": [], "adapter": [], "prompt": ["model.peft.p_tuning.virtual_tokens=4"],
           "p-tuning": ["model.peft.p_tuning.virtual_tokens=4", "model.peft.p_tuning.bottleneck_dim=16"],
           "prefix": ["model.peft.p_tuning.virtual_tokens=4"], "full": [], "taught": ["--teacher", "teacher"],
           "reverse": ["--teacher", "teacher", "--kl", "reverse", "--cross-entropy-weight", 0.5], "vectors": ["--data", "pairs.jsonl"]}
FULL = ("taught", "reverse", "vectors")  # trained with all weights
TENSOR, PIPELINE = "model.tensor_model_parallel_size", "model.pipeline_model_parallel_size"
LAYOUTS = {"TP 2": (2, [f"{TENSOR}=2"]), "DP 2, ZeRO 1": (2, ["model.zero_stage=1"]), "PP 2": (2, [f"{PIPELINE}=2"]),
           "TP 2, PP 2": (4, [f"{TENSOR}=2", f"{PIPELINE}=2"]), "PP 4": (4, [f"{PIPELINE}=4"]),
           "PP 2, DP 2, ZeRO 1": (4, [f"{PIPELINE}=2", "model.zero_stage=1"])}
EACH = pathlib.Path(__file__).resolve().parents[1] / "processes/each.py"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stoa")
    parser.add_argument("--methods", nargs="*", default=list(METHODS))
    parser.add_argument("--links", nargs="*", default=["mpi", "tcp"])
    args = parser.parse_args()
    program = str(pathlib.Path(args.stoa).resolve())
    with tempfile.TemporaryDirectory() as name:
        here = pathlib.Path(name)

        def run(*command, **environment):
            done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=here, env={**os.environ, **environment})
            if done.returncode:
                sys.exit(f"{' '.join(map(str, command))}\n{done.stderr[-3000:]}")

        (here / "text.txt").write_text("the stone is in the river and the tree\n\nthe road is long and the sea is wide\n\n" * 200)
        (here / "chats.jsonl").write_text("".join(
            json.dumps({"prompt": f"where is the {thing}", "completion": f" in the {place}"}) + "\n"
            for thing in ("stone", "road", "tree") for place in ("river", "sea") for _ in range(4)))
        run(program, "tokenizer", "train", "text.txt", "--vocab-size", 300, "--output", "tok")
        run(program, "data", "prepare", "text.txt", "--tokenizer", "tok", "--output", "data", "--text-split", "paragraph")
        run(program, "train", "tiny", "model.data=data", "model.tokenizer=tok", "model.num_layers=4", "model.hidden_size=128",
            "model.num_attention_heads=2", "model.encoder_seq_length=64", "trainer.max_steps=3", "trainer.val_check_interval=0",
            "model.optim.sched.warmup_steps=0", "--output", "base")
        run(program, "train", "tiny", "model.data=data", "model.tokenizer=tok", "model.num_layers=6", "model.hidden_size=96",
            "model.num_attention_heads=4", "model.encoder_seq_length=64", "trainer.max_steps=3", "trainer.val_check_interval=0",
            "model.optim.sched.warmup_steps=0", "--output", "teacher")
        (here / "pairs.jsonl").write_text("".join(
            json.dumps({"query": f"{thing} {place}", "positive": f"the {thing} is in the {place}"}) + "\n"
            for thing in ("stone", "road", "tree") for place in ("river", "sea", "wide") for _ in range(4)))

        def tune(output, method, launcher, *more):
            data = METHODS[method] if method == "vectors" else ["--data", "chats.jsonl", "--template", "none", *METHODS[method]]
            run(*launcher, program, "finetune", "base", *data, "--method", "full" if method in FULL else method, "--epochs", 50,
                "--stop-after", 4, "--length", 64, "model.global_batch_size=4", "model.micro_batch_size=1", "model.optim.lr=0.02",
                "trainer.precision=fp32", "trainer.val_check_interval=0", "trainer.num_threads=1", "trainer.log_every_n_steps=1",
                *more, "--output", output)
            latest = here / output / "checkpoints/latest"
            files = sorted([*latest.glob("adapter/adapter*.safetensors"), *latest.glob("model/*.safetensors")])
            losses = [json.loads(line)["loss"] for line in open(here / output / "metrics.jsonl") if '"loss"' in line]
            return b"".join(file.read_bytes() for file in files), losses

        number = 0
        for method in args.methods:
            _, alone = tune(f"{method}-alone", method, [])
            for layout, (ranks, keys) in LAYOUTS.items():
                threads, losses = tune(f"{method}-{ranks}-{number}", method, [], *keys, "--ranks", ranks)
                apart = max(abs(a - b) for a, b in zip(losses, alone, strict=True))
                if apart > 1e-3:
                    sys.exit(f"{method}, {layout}: losses {losses}, of one rank {alone}")
                for link in args.links:
                    number += 1
                    launcher = [EACH, ranks] if link == "tcp" else ["mpirun", "--oversubscribe", "--allow-run-as-root", "-n", ranks]
                    found, _ = tune(f"{method}-{link}-{number}", method, launcher, *keys)
                    if found != threads or not found:
                        sys.exit(f"{method}, {layout}, {link}: another adapter than that of threads")
                print(f"{method:9} {layout:20} {' and '.join(args.links)} as threads; losses within {apart:.0e} of one rank", flush=True)


main()
