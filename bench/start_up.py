#!/usr/bin/env python3
"""What a run costs beside its steps: a one-step GPT-2 124M run from a prepared corpus, minus the median step.

  python bench/start_up.py [--rounds 3] [--json bench/results/start_up.json]

`stoa train gpt2-124m`, batch 4 x 1024, bf16: reads tokenizer and corpus, makes initial weights, plans and allocates memory, measures the GEMM
rate, does one step. The index files of the corpus are there already (a first run made them). The median step is that of a run of
--steps steps. The bar of 2 s counts without the checkpoint at the end; with it is stated too.
"""
import argparse
import json
import pathlib
import statistics
import tempfile
import time

import common


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=1024)
    parser.add_argument("--json")
    args = parser.parse_args()

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = common.prepare_workplace(args.stoa, folder)
        number = 0

        def train(steps, save):
            nonlocal number
            number += 1
            run = folder / f"run{number}"
            begin = time.monotonic()
            # The rate of the schedule's first steps is of no interest here, so it is the same in a run of one step.
            common.output(args.stoa, "train", "gpt2-124m", *data, f"model.micro_batch_size={args.micro_batch}",
                          f"model.global_batch_size={args.micro_batch}", f"model.encoder_seq_length={args.sequence}",
                          f"trainer.max_steps={steps}", "trainer.val_check_interval=0", "trainer.log_every_n_steps=1",
                          "model.optim.sched.warmup_steps=0", f"exp_manager.create_checkpoint_callback={str(save).lower()}",
                          "--output", run)
            seconds = time.monotonic() - begin
            lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            return seconds, [line["step_seconds"] for line in lines if "step_seconds" in line]

        train(1, False)  # makes the index files
        median_step = statistics.median(train(args.steps, False)[1])
        plain, first_steps, saved = [], [], []
        for _ in range(args.rounds):
            seconds, steps = train(1, False)
            plain.append(seconds)
            first_steps += steps
        saved.append(train(1, True)[0])
    result = {**common.facts(), "benchmark": "start up", "model": "gpt2-124m", "micro_batch": args.micro_batch, "sequence": args.sequence,
              "one_step_run_seconds": statistics.median(plain), "first_step_seconds": statistics.median(first_steps),
              "median_step_seconds": median_step, "start_up_seconds": statistics.median(plain) - median_step, "bar_seconds": 2.0,
              "start_up_and_checkpoint_seconds": statistics.median(saved) - median_step, "runs": {"plain": plain, "with_checkpoint": saved}}
    common.save(result, args.json)


if __name__ == "__main__":
    main()
