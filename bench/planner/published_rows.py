#!/usr/bin/env python3
"""The measured runs that ship with the program (configs/planner/published_rows.csv): grades A and B, independent. Of
their notes the words that configs/planner/software_profiles.yaml looks for. bench/planner/published_rows.py ROWS.csv > configs/planner/published_rows.csv"""
import csv
import pathlib
import re
import sys

COLUMNS = ("source,model,layers,hidden,heads,ffn_hidden,vocab,seq_len,gpu,gpus,gpus_per_node,tp,pp,vpp,dp,cp,ep,micro_batch,global_batch,"
           "recompute,sequence_parallel,distributed_optimizer,precision,seconds_per_step,grade,file,note").split(",")
PROFILES = pathlib.Path(__file__).resolve().parents[2] / "configs" / "planner" / "software_profiles.yaml"
WORDS = sorted(set(re.findall(r'states: "([^"]+)"', PROFILES.read_text())))
with open(sys.argv[1], newline="") as file:
    rows = [row for row in csv.DictReader(file)
            if row["grade"] in ("A", "B") and row["seconds_per_step"] and "ground_truth_single" not in row["source"] + row["file"]]
for row in rows:
    row["note"] = "; ".join(w for w in WORDS if w in "| " + row["note"])
out = csv.DictWriter(sys.stdout, COLUMNS, extrasaction="ignore", lineterminator="\n")
out.writeheader()
out.writerows(rows)
