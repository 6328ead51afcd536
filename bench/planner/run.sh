#!/usr/bin/env bash
# How accurate the planner's time model is on measured training runs: fits the constants, leaves whole sources out, prints the
# table and keeps it.  bench/planner/run.sh ROWS.csv [STOA]
# The folder of ROWS.csv also holds the tables that bench/planner/tables.py reads.
# Writes bench/results/planner-accuracy.md and, in configs/planner, what ships: calibration.yaml, published_rows.csv.
set -euo pipefail
[ $# -ge 1 ] || { sed -n 2,5p "$0" >&2; exit 2; }
cd "$(dirname "$0")/../.."
rows=$1 stoa=${2:-build/release/src/stoa}
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
"$stoa" plan calibrate --rows "$rows" --output "$work/calibration.yaml" --report "$work/accuracy.md"
{
  echo "# Constants of the time model, fitted to published rows of grades A and B by bench/planner/run.sh."
  cat "$work/calibration.yaml"
} > configs/planner/calibration.yaml
python3 bench/planner/published_rows.py "$rows" > configs/planner/published_rows.csv
{
  sed -n 1,4p bench/results/planner-accuracy.md  # heading
  cat "$work/accuracy.md"
  python3 bench/planner/tables.py "$(dirname "$rows")" "$stoa"
} > "$work/page.md"
mv "$work/page.md" bench/results/planner-accuracy.md
