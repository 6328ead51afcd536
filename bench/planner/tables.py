#!/usr/bin/env python3
"""Published figures beside the planner's, as Markdown. bench/planner/tables.py FOLDER [STOA]
FOLDER holds training_rows.csv, azure_table.csv, layer_times_22b.csv, activation_memory.csv,
zero_bubble_bubble_rates.csv and simulator_accuracy.csv (docs/planner-accuracy.md says what is in them)."""
import csv
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(sys.argv[1])
STOA = sys.argv[2] if len(sys.argv) > 2 else "build/release/src/stoa"
PEAK = 312e12  # FLOP/s of an A100 in 16 bit


def stoa(*arguments):
    return subprocess.run([STOA, *map(str, arguments)], check=True, capture_output=True, text=True).stdout


def read(name):
    with open(FOLDER / name, newline="") as file:
        return list(csv.DictReader(file))


def predicted(rows, *options):
    """Rows of measurements with what the planner says of them."""
    with tempfile.TemporaryDirectory() as work:
        path = pathlib.Path(work)
        with open(path / "rows.csv", "w", newline="") as file:
            out = csv.DictWriter(file, {key: None for row in rows for key in row})
            out.writeheader()
            out.writerows(rows)
        stoa("plan", "predict", "--rows", path / "rows.csv", "--output", path / "out.csv", *options)
        with open(path / "out.csv", newline="") as file:
            return list(csv.DictReader(file))


def seconds(rows, *options):
    return [float(row["predicted_seconds"]) for row in predicted(rows, *options)]


def table(title, header, rows):
    print(f"\n## {title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(str(cell) for cell in row)} |")


def megatron(**changes):
    """175 billion parameters as 2205.05198 trains them."""
    row = {"source": "arXiv 2205.05198", "model": "GPT 175B", "layers": 96, "hidden": 12288, "heads": 96, "vocab": 51200,
           "seq_len": 2048, "gpu": "A100-SXM-80GB", "tp": 8, "pp": 8, "vpp": 3, "micro_batch": 1, "global_batch": 64,
           "gpus": 64, "recompute": "selective", "sequence_parallel": "yes", "distributed_optimizer": "no"}
    return {**row, **changes}


def full(**changes):
    return megatron(recompute="full", sequence_parallel="no", **changes)


TRILLION = {"model": "GPT 1T", "layers": 128, "hidden": 25600, "heads": 160}


def model_flops(layers, hidden, batch, sequence=2048, vocabulary=51200):
    """Of a step: 2104.04473, equation 3, without what is computed again."""
    return 72 * batch * sequence * layers * hidden**2 * (1 + sequence / (6 * hidden) + vocabulary / (12 * layers * hidden))


def mission():
    rows = []
    measured = [row for row in read("azure_table.csv") if float(row["seconds_per_step"]) > 0]
    for row in measured:
        if not row["global_batch"]: row["global_batch"] = 1920  # of 530B, which its source does not state
    for row, guess in zip(measured, seconds(measured)):
        layout = f"TP{row['tp']} PP{row['pp']} on {row['gpus']}"
        time = float(row["seconds_per_step"])
        rows.append((f"{row['model']}, {layout}, s", row["seconds_per_step"], f"{guess:.2f}", f"{100 * (guess / time - 1):+.1f} %"))
    add = lambda name, printed, ours: rows.append((name, printed, f"{ours:.4g}", f"{100 * (ours / printed - 1):+.1f} %"))
    # 2104.04473 section 5.1 counts 34 days at 140 TFLOP/s; NeMo's announcement 24 days for 300 billion tokens.
    day, = seconds([megatron(source="NeMo-Megatron-Launcher", gpus=1024, global_batch=1536, micro_batch=2, vpp=1)])
    add("175B on 1,024 A100, 300 billion tokens, days", 24, day * 300e9 / (1536 * 2048) / 86400)
    # 2104.04473 table 1: 1T on 3,072 at 502 PFLOP/s, recomputation counted; 16 bit, batch 3,072.
    for chunks in (1, 2):
        time, = seconds([full(**TRILLION, source="arXiv 2104.04473", gpus=3072, pp=64, vpp=chunks, global_batch=3072)])
        flops = 96 * 3072 * 2048 * 128 * 25600**2 * (1 + 2048 / (6 * 25600) + 51200 / (16 * 128 * 25600))
        add(f"1T on 3,072 A100, {chunks} chunk{'s' * (chunks > 1)} per stage, PFLOP/s", 502, flops / time / 1e15)
    sizes = [("22B", dict(model="GPT 22B", layers=48, hidden=6144, heads=64, pp=1, vpp=1, micro_batch=4, global_batch=4, gpus=8), 29.0),
             ("175B", {}, 31.8),
             ("530B", dict(model="GPT 530B", layers=105, hidden=20480, heads=128, pp=35, global_batch=280, gpus=280), 29.7),
             ("1T", dict(**TRILLION, pp=64, vpp=1, global_batch=512, gpus=512), 32.1)]
    for name, shape, printed in sizes:
        before, after = seconds([full(**shape), megatron(**shape)])
        add(f"{name}: sequence parallel and selective recomputation instead of full, % faster", printed, 100 * (before / after - 1))
    for batch in (12, 36, 60):
        shape = dict(source="arXiv 2104.04473", pp=12, gpus=96, global_batch=batch)
        plain, chunks = seconds([full(**shape, vpp=1), full(**shape, vpp=4)])
        rows.append((f"175B on 96 A100, batch {batch}: interleaving, % faster", "10 and more (abstract)", f"{100 * (plain / chunks - 1):.1f}", ""))
    table("Figures that papers and vendors lead with", ("figure", "printed", "predicted", "error"), rows)


def layer_times():
    """One layer and microbatch: what the 49th layer and the second microbatch add."""
    rows, factor = [], None
    for row in read("layer_times_22b.csv"):
        if not row["combined_ms"]: continue
        name = row["experiment"].lower()
        kind = "full" if "with recompute" in name else "selective" if "selective" in name else "none"
        shape = dict(model="GPT 22B", hidden=6144, heads=64, pp=1, vpp=1, gpus=8, micro_batch=4,
                     recompute=kind, sequence_parallel="yes" if "sequence" in name else "no")
        a, b, c, d = seconds([megatron(**shape, layers=layers, global_batch=batch) for layers in (48, 49) for batch in (4, 8)])
        guess, printed = 1e3 * ((d - c) - (b - a)), float(row["combined_ms"])
        factor = factor or printed / guess
        rows.append((row["experiment"], printed, f"{guess:.1f}", f"{100 * (guess / printed - 1):+.1f} %", f"{100 * (guess * factor / printed - 1):+.1f} %"))
    table("A layer of the 22B model, forward and backward, ms (2205.05198, table 4)",
          ("experiment", "measured", "predicted", "error", "error, calibrated on the first"), rows)


def bubbles():
    layers_of_stage = {"1.5B": 3, "6.2B": 4, "14.6B": 3, "28.3B": 2}
    published = [("1F1B", "1f1b"), ("ZB-H1", "zb-h1"), ("ZB-H2", "zb-h2"), ("1F1B-I", "interleaved")]
    rows = []
    worst = dict.fromkeys([*dict(published), "1F1B-I, their charge"], 0.0)
    for row in read("zero_bubble_bubble_rates.csv"):
        cells = [row["model"], row["pp"], row["microbatches"]]
        time = {key: float(row[key]) for key in ("T_F", "T_B", "T_W", "T_comm")}
        for column, name in published:
            chunks = layers_of_stage[row["model"]] if name == "interleaved" else 1
            split = name.startswith("zb")
            gradients = (["--input-gradient-time", time["T_B"], "--weight-gradient-time", time["T_W"]] if split else
                         ["--backward-time", (time["T_B"] + time["T_W"]) / chunks])
            found = json.loads(stoa("schedule", "show", name, "--stages", row["pp"], "--microbatches", row["microbatches"],
                                    *(["--chunks", chunks] if chunks > 1 else []), "--forward-time", time["T_F"] / chunks, *gradients,
                                    "--communication-time", time["T_comm"], "--format", "json"))
            rate = found["span_bubble"]
            if column == "1F1B-I":  # the authors charge fewer transfers: P of T_comm
                ideal = int(row["microbatches"]) * (time["T_F"] + time["T_B"] + time["T_W"])
                theirs = 1 - ideal / (found["span"] - int(row["pp"]) * time["T_comm"])
                worst["1F1B-I, their charge"] = max(worst["1F1B-I, their charge"], abs(theirs - float(row[column])))
            worst[column] = max(worst[column], abs(rate - float(row[column])))
            cells.append(f"{row[column]} / {rate:.4f}")
        rows.append(cells)
    table("Bubble rates (2401.10241, table 5: printed / simulated with the profiled times)",
          ("model", "stages", "microbatches", *dict(published)), rows)
    print("\nLargest differences, points: " + ", ".join(f"{name} {100 * value:.2f}" for name, value in worst.items()) +
          ". Their interleaved schedule waits for fewer transfers, one per stage; ZB-2p is a search by profile and is left out.")


def activations():
    shapes = {"22B": dict(layers=48, hidden=6144, heads=64, micro=4, vpp=1), "175B": dict(layers=96, hidden=12288, heads=96, micro=1, vpp=3),
              "530B": dict(layers=105, hidden=20480, heads=128, micro=1, vpp=3), "1T": dict(layers=128, hidden=25600, heads=160, micro=1, vpp=1)}

    def account(row, kind, sequence_parallel):
        s = shapes[row["model"]]
        keys = {"model.num_layers": s["layers"], "model.hidden_size": s["hidden"], "model.num_attention_heads": s["heads"],
                "model.ffn_hidden_size": 4 * s["hidden"], "model.encoder_seq_length": 2048, "model.vocab_size": 51200, "model.micro_batch_size": s["micro"],
                "model.global_batch_size": s["micro"] * int(row["pp"]), "model.tensor_model_parallel_size": 8, "model.pipeline_model_parallel_size": row["pp"],
                "model.sequence_parallel": str(sequence_parallel).lower()}
        if s["vpp"] > 1: keys["model.virtual_pipeline_model_parallel_size"] = s["vpp"]
        if kind == "full": keys |= {"model.activations_checkpoint_granularity": "full", "model.activations_checkpoint_method": "uniform", "model.activations_checkpoint_num_layers": 1}
        if kind == "selective": keys["model.activations_checkpoint_granularity"] = "selective"
        return json.loads(stoa("plan", "predict", "gpt-175b", *(f"{k}={v}" for k, v in keys.items()), "--ranks", 8 * int(row["pp"]), "--cluster", "dgx-a100-80gb",
                               "--accounting", "2205.05198", "--json"))["accounting"]

    rows, drawn = [], []
    for row in read("activation_memory.csv"):
        technique = row["technique"]
        kind = "full" if "full" in technique else "selective" if "selective" in technique.lower() else "none"
        sequence_parallel = "sequence" in technique or "SP +" in technique
        if row["item"] == "Fig 1 memory per GPU":
            found = account(row, kind, sequence_parallel)
            ours = found["states_bytes" if "optimizer" in technique else "layers_bytes"] / 2**30
            rows.append((row["model"], technique, row["value"], f"{ours:.10g}", "equal" if f"{ours:.10g}" == row["value"] else f"{100 * (ours / float(row['value']) - 1):+.2f} %"))
        if row["item"].startswith("Fig 7") and row["value"] and row["model"] in shapes:
            ratio = 100 * account(row, kind, sequence_parallel)["layers_bytes"] / account(row, "none", False)["layers_bytes"]
            drawn.append(abs(ratio - float(row["value"])))
    table("Memory of the first stage as 2205.05198 counts it, GiB", ("model", "what", "printed", "computed", ""), rows)
    print(f"\nShares of the baseline in its figure 7, read off the drawing: {statistics.mean(drawn):.1f} points apart on average, {max(drawn):.1f} at most.")


def simulators():
    measured = [row for row in read("training_rows.csv") if row["grade"] in "AB" and row["seconds_per_step"]]
    table5 = [row for row in measured if "korthikanti" in row["file"]]
    multi = [row for row in measured if "ground_truth_multi" in row["file"]]
    single = [row for row in measured if "ground_truth_single" in row["file"]]

    def errors(rows, *options):
        known = [row for row in predicted(rows, *options) if row["error_percent"]]
        values = [abs(float(row["error_percent"])) for row in known]
        return f"{statistics.mean(values):.1f} % mean, {max(values):.1f} % at most ({len(values)} rows)" if values else ""

    rows = []
    for row in read("simulator_accuracy.csv"):
        claim = re.sub(r" \(computed by .*\)", "", row["claimed_error"])
        if "no " in claim or "not a" in row["note"]: continue
        beside = (table5 if "Korthikanti" in row["what"] else multi if "multi node" in row["what"] else single if "single node" in row["what"] else [])
        rows.append((row["tool"], row["what"], claim, errors(beside), errors(beside, "--calibration", "none")) if beside else (row["tool"], row["what"], claim, "", ""))
    table("What other simulators claim", ("tool", "of what", "claim", "Stoa on these rows, as shipped", "Stoa, datasheet only"), rows)
    print("\nvTrain's single-node rows are not runs of their own: they are sums of few measured pieces, which its own model adds up again. No constant of "
          "Stoa is fitted to them.")


def shipped():
    """What bench/planner/nvidia_settings.sh prints, a row per model."""
    script = pathlib.Path(__file__).with_name("nvidia_settings.sh").resolve()
    text = subprocess.run(["bash", script, pathlib.Path(STOA).resolve()], check=True, capture_output=True, text=True).stdout
    rows = []
    for part in text.split("== ")[1:]:
        name = re.match(r"(\S+) on (\d+)", part)
        best = re.search(r"layout\n +([\d.]+) s .*?  (TP\S.*)", part)
        other, seconds, memory = re.search(r"beside it: (.*)\n +([\d.]+) s per step, [\d.]+ GB \((.*?)\)", part).groups()
        why = re.search(r"the best is (.*?); what the other has more of: (.*)", part)
        reason = f"shipped: {why[2]}" if why[2] != "nothing grew" and "slower" not in why[1] else "the same" if why[1].startswith("0.0") else ""
        if memory.endswith("too much"): reason = f"shipped does not fit this program: {memory.replace(' too', ' GB too')}"
        rows.append((name[1], name[2], other, seconds, best[2], best[1], f"{100 * (float(best[1]) / float(seconds) - 1):+.1f} %", reason))
    table("The search beside the settings that NVIDIA shipped (NeMo Framework Launcher 24.12), predicted on DGX A100",
          ("model", "GPUs", "shipped", "s", "found", "s", "", "why"), rows)


for part in (mission, layer_times, bubbles, activations, simulators, shipped):
    part()
