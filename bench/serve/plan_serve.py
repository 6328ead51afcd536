#!/usr/bin/env python3
"""What `stoa plan serve` predicts, beside what `stoa serve` does at the same rates: latencies, goodput.

  python bench/serve/plan_serve.py STOA MODEL [--rates 1 3 5 7] [--seconds 30] [--input 128] [--output 32] [--slo ttft=1s,tpot=200ms] [--json FILE]

The passes of the engine are measured (`stoa bench engine`) before and after the server is put under load (`stoa bench serve`), and the prediction is made with each: on a machine
whose speed changes, what was seen lies between the two at best. Arrivals are random, with different draws in both. Needs Python alone.
"""
import argparse
import json
import subprocess
import sys
import tempfile

import served


def call(*words):
    done = subprocess.run([str(w) for w in words], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("stoa")
    parser.add_argument("model")
    parser.add_argument("--rates", nargs="*", type=float, default=[1, 3, 5, 7])
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--input", type=int, default=128)
    parser.add_argument("--output", type=int, default=32)
    parser.add_argument("--slo", default="ttft=1s,tpot=200ms")
    parser.add_argument("--json")
    a = parser.parse_args()
    engines = [call(a.stoa, "bench", "engine", a.model, "--json")]
    server, address = served.start(a.stoa, a.model)
    try:
        seen = call(a.stoa, "bench", "serve", address + "/v1", "--rate", *a.rates, "--seconds", a.seconds, "--requests", 100000, "--input", a.input, "--output", a.output,
                    "--slo", a.slo, "--json")["loads"]
    finally:
        served.stop(server)
    engines.append(call(a.stoa, "bench", "engine", a.model, "--json"))
    rows = []
    for load, rate in zip(seen, a.rates):
        tokens = round(load["prompt_tokens"] / load["requests"])
        row = {"rate": rate, "prompt_tokens": tokens, "seen": load, "predicted": []}
        for engine in engines:
            with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
                json.dump(engine, file)
                file.flush()
                row["predicted"].append(call(a.stoa, "plan", "serve", "--measured", file.name, "--rate", rate, "--input", tokens, "--output", a.output, "--slo", a.slo, "--json"))
        rows.append(row)
        said = [p["rows"][0] for p in row["predicted"]]
        both = [said[0], said[1], load]

        def three(key, part, scale=1000):
            return " / ".join(f"{scale * r[key][part]:.0f}" for r in both)
        share = load["good"] / load["requests"]
        print(f"{rate:g} requests/s (predicted before / after / seen): TTFT in ms mean {three('ttft_seconds', 'mean')}, p90 {three('ttft_seconds', 'p90')}; TPOT mean "
              f"{three('tpot_seconds', 'mean')}, p90 {three('tpot_seconds', 'p90')}; good {said[0]['good_share']:.2f} / {said[1]['good_share']:.2f} / {share:.2f}", flush=True)
    most = [p["most_rate_per_machine"] for p in rows[0]["predicted"]]
    print(f"one machine keeps {a.slo} up to {most[0]:.1f} / {most[1]:.1f} requests/s, it is predicted")
    if a.json:
        with open(a.json, "w", encoding="utf-8") as out:
            json.dump(rows, out, indent=1)


if __name__ == "__main__":
    main()
