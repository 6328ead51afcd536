#!/usr/bin/env python3
"""Twenty layouts on threads of this machine, measured beside what the planner says of them.

    bench/planner/threads.py [--stoa build/release/src/stoa] [--rounds 9] [--instruction-set NAME] [--only N...] [--json FILE]

`stoa bench calibrate` first, then each layout in turns of a fraction of a step with one of the trainings that the calibration timed: its time there, times
the ratio of the two here, is what the layout takes at the speed for which the calibration speaks, whatever the machine does meanwhile. The models of
the layouts are none of those that the calibration trains. Bytes: the plan of the first rank beside what its run allocates.
"""
import argparse
import json
import os
import pathlib
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import common
import turns

CORES = len(os.sched_getaffinity(0))
REFERENCE = 3  # of the calibration's trainings: a fifth of a second per step


def keys(layers, hidden, sequence, micro, batch, **layout):
    sizes = {"num_layers": layers, "hidden_size": hidden, "num_attention_heads": hidden // 64, "encoder_seq_length": sequence, "micro_batch_size": micro,
             "global_batch_size": batch, "vocab_size": 6144, "hidden_dropout": 0, "attention_dropout": 0}
    return ["trainer.val_check_interval=0", *(f"model.{key}={value}" for key, value in {**sizes, **layout}.items())]


TP, PP, VPP, ZERO = "tensor_model_parallel_size", "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size", "zero_stage"
FULL = {"activations_checkpoint_granularity": "full", "activations_checkpoint_method": "uniform", "activations_checkpoint_num_layers": 1}
LAYOUTS = [(1, keys(3, 640, 256, 2, 4)), (1, keys(6, 320, 512, 2, 4)), (1, keys(5, 448, 256, 4, 8)), (1, keys(3, 640, 512, 1, 4)), (1, keys(6, 384, 256, 2, 8, **FULL)),
           (2, keys(6, 384, 256, 2, 16)), (2, keys(6, 384, 256, 2, 16, **{ZERO: 1})), (2, keys(4, 448, 256, 2, 8, **{ZERO: 3})), (2, keys(4, 640, 256, 2, 8, **{TP: 2})),
           (2, keys(4, 640, 256, 2, 8, **{TP: 2}, sequence_parallel="true")), (2, keys(4, 448, 512, 2, 8, **{PP: 2})), (2, keys(8, 384, 256, 2, 16, **{PP: 2, VPP: 2})),
           (2, keys(6, 384, 256, 2, 16, **{PP: 2}, pipeline_schedule="zb-h1")), (2, keys(8, 384, 256, 2, 16, **{PP: 2}, pipeline_schedule="zb-v")), (2, keys(6, 384, 256, 4, 16, **FULL)),
           (4, keys(6, 384, 256, 2, 16)), (4, keys(4, 448, 256, 2, 8, **{TP: 2})), (4, keys(8, 384, 256, 2, 16, **{PP: 2})), (4, keys(8, 384, 256, 2, 16, **{PP: 4})), (4, keys(4, 640, 256, 2, 8, **{TP: 2, PP: 2}))]



def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--instruction-set", help="of all programs (default: the best of this machine)")
    parser.add_argument("--only", type=int, nargs="*", help="layouts, counted from 1")
    parser.add_argument("--json")
    args = parser.parse_args()
    machine = ["--instruction-set", args.instruction_set] if args.instruction_set else []

    def answer(*arguments):
        return json.loads(common.output(args.stoa, *arguments, "--json"))

    with tempfile.TemporaryDirectory() as folder:
        calibration = answer("bench", "calibrate", "--output", folder, *machine)
        del calibration["directory"]
        reference = calibration["trainings"][REFERENCE]
        defaults = pathlib.Path(folder, "defaults.yaml")  # the calibration's trainings are of no preset
        defaults.write_text("{}\n")
        files = ["--cluster", f"{folder}/cluster.yaml", "--calibration", f"{folder}/calibration.yaml"]
        rows = []
        print("| layout | bytes of the first rank, planned - run | step, s | predicted, s | error | bar |\n|---|--:|--:|--:|--:|--:|")
        for number, (ranks, layout) in enumerate(LAYOUTS, 1):
            if args.only and number not in args.only: continue
            layout = ["gpt2-124m", *layout, "--ranks", str(ranks)]
            run = answer("bench", "train", *layout, "--steps", 1, "--warmup", 0, *machine)
            bind = ["--bind-cores"] if 1 < ranks <= CORES else []
            with turns.training(args.stoa, [defaults, *reference["overrides"], *machine], args.rounds) as known, \
                 turns.training(args.stoa, [*layout, *machine, *bind], args.rounds) as other:
                base, seconds = turns.alternate(known, other, args.rounds)
            ratios = [b / a for a, b in zip(base, seconds)]
            step = reference["measured_seconds"] * statistics.median(ratios)
            predicted = answer("plan", "predict", *layout, *files)["step_seconds"]
            memory = answer("plan", "memory", *layout, "--threads", max(1, CORES // ranks), *machine)
            planned = next(row["total_bytes"] for row in memory["table"] if row["rank"] == 0)
            shape = dict(key.removeprefix("model.").split("=") for key in layout if key.startswith("model."))
            row = {"layout": f"{shape['num_layers']} x {shape['hidden_size']}, {run['layout']}", "bytes_off": planned - run["planned_memory_bytes"],
                   "step_seconds": step, "predicted_seconds": predicted, "error": predicted / step - 1, "bar": 0.10 if ranks <= min(2, CORES) else 0.20,
                   "ratios": ratios}
            rows.append(row)
            print(f"| {row['layout']} | {row['bytes_off']} | {step:.4f} | {predicted:.4f} | {100 * row['error']:+.1f} % | {100 * row['bar']:.0f} % |", flush=True)
    within = sum(abs(row["error"]) <= row["bar"] for row in rows)
    exact = sum(row["bytes_off"] == 0 for row in rows)
    print(f"\n{exact} of {len(rows)} with the planned bytes, {within} of {len(rows)} within their bar of time.")
    common.save({**common.facts(), "benchmark": "threads", "machine": run["machine"], "rounds": args.rounds, "calibration": calibration, "layouts": rows,
                 "exact": exact, "within": within}, args.json)


if __name__ == "__main__":
    main()
