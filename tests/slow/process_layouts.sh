#!/usr/bin/env bash
# process_layouts.sh BUILD: every schedule with stages that are processes, every family in pipelines of two, three and four stages,
# 100 random layouts of GPTs and 100 of families, by MPI and over TCP: in every bit those of threads. Minutes.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
program=$(realpath "$1")/tests/process_layout_test
[ -x "$program" ] || { echo "no $program: build the target process_layout_test"; exit 1; }
export STOA_LAYOUT_SECONDS=3000
for kind in mpi tcp; do
  for ranks in 2 3 4 6 8; do
    echo "== $kind, $ranks ranks"
    "$source/tests/processes/run.sh" "$kind" "$ranks" "$program" -- all 20
  done
done
