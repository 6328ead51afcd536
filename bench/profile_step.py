#!/usr/bin/env python3
"""Where a training step's time goes: operations of one traced step (trainer.trace_steps), by name.

  python bench/profile_step.py [--json bench/results/profile.json] [CONFIG=gpt2-124m] [key=value …]

Prints a table: calls, milliseconds, share of the step, TFLOP/s of the matrix products among them. Times are of the rank's thread, which
waits for its workers, so they add up to the step. Batch 4 x 1024 unless --rows and overrides say otherwise.
"""
import argparse
import json
import pathlib
import tempfile

import common


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", default="gpt2-124m")
    parser.add_argument("overrides", nargs="*")
    parser.add_argument("--stoa", default=common.DEFAULT_STOA)
    parser.add_argument("--step", type=int, default=3)
    parser.add_argument("--rows", type=int, default=4, help="batch, in one microbatch")
    parser.add_argument("--backend", default="cpu", help="with cuda, each operation is waited for")
    parser.add_argument("--json")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        data = common.prepare_workplace(args.stoa, folder)
        common.output(args.stoa, "train", args.config, *data, f"model.micro_batch_size={args.rows}", f"model.global_batch_size={args.rows}",
                      f"trainer.max_steps={args.step}", "trainer.val_check_interval=0", f"trainer.trace_steps=[{args.step}]",
                      "model.optim.sched.warmup_steps=0", "exp_manager.create_checkpoint_callback=false", *args.overrides, "--backend",
                      args.backend, "--output", folder / "run")
        events = json.loads((folder / "run/trace.json").read_text())["traceEvents"]
    events = [e for e in events if e["ph"] == "X"]  # not the names of the tracks

    # Spans of the schedule contain operations; an operation contains nothing.
    events.sort(key=lambda e: (e["ts"], -e["dur"]))
    leaves = [e for e, after in zip(events, [*events[1:], None])
              if after is None or after["ts"] >= e["ts"] + e["dur"] or "tflops" in e.get("args", {})]
    whole = max(e["ts"] + e["dur"] for e in events) - min(e["ts"] for e in events)
    rows = {}
    for e in leaves:
        row = rows.setdefault(e["name"], {"calls": 0, "us": 0.0, "flop": 0.0, "product_us": 0.0})
        row["calls"] += 1
        row["us"] += e["dur"]
        if "args" in e:
            row["flop"] += e["args"]["tflops"] * e["dur"] * 1e6
            row["product_us"] += e["dur"]
    table = [{"operation": name, "calls": r["calls"], "ms": r["us"] / 1e3, "share": r["us"] / whole,
              "tflops": r["flop"] / r["product_us"] / 1e6 if r["product_us"] else None}
             for name, r in sorted(rows.items(), key=lambda item: -item[1]["us"])]
    table.append({"operation": "between operations", "calls": 0, "ms": (whole - sum(r["us"] for r in rows.values())) / 1e3,
                  "share": 1 - sum(r["us"] for r in rows.values()) / whole, "tflops": None})
    print("| operation | calls | ms | share | TFLOP/s |\n|---|--:|--:|--:|--:|")
    for row in table:
        rate = f"{row['tflops']:.3f}" if row["tflops"] else ""
        print(f"| {row['operation']} | {row['calls']} | {row['ms']:.1f} | {row['share']:.1%} | {rate} |")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({**common.facts(), "benchmark": "profile of a step", "config": args.config,
                                                       "overrides": args.overrides, "step_ms": whole / 1e3, "operations": table},
                                                      indent=1) + "\n")


if __name__ == "__main__":
    main()
