#!/usr/bin/env python3
"""Pipeline schedules on two ranks of one machine, one core each, against 1F1B and against their simulation.

    bench/pipeline.py [--program build/release/src/stoa] [--rounds 15] [--out FILE.json]

The bars: interleaved at least 10 % faster than 1F1B with few microbatches, every ratio within 5 % of the simulated one.
Ratios are of steps that run in turn, so a machine that slows down slows all of them.
"""
import argparse
import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODEL = ["tiny", "model.num_layers=8", "model.hidden_size=256", "model.num_attention_heads=4", "model.encoder_seq_length=256",
         "model.vocab_size=512", "model.micro_batch_size=2", "trainer.precision=fp32"]

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default=ROOT / "build/release/src/stoa")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    runs = []
    for microbatches in (2, 4):
        command = [str(options.program), "bench", "pipeline", *MODEL, "--microbatches", str(microbatches), "--rounds",
                   str(options.rounds), "--json"]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
        for s in runs[-1]["schedules"]:
            off = s["speed"] / s["simulated_speed"] - 1
            print(f"{microbatches} microbatches  {s['schedule']:12} {s['step_seconds']:.4f} s  x{s['speed']:.3f} of 1f1b "
                  f"({s['speed_range'][0]:.3f}-{s['speed_range'][1]:.3f}), simulated x{s['simulated_speed']:.3f} ({off:+.1%})")
    if options.out:
        options.out.write_text(json.dumps(runs, indent=1) + "\n")
