#!/usr/bin/env bash
# run.sh mpi|tcp RANKS PROGRAM [timeout|stopped|exception|size|killed | -- ARGUMENTS]: the program as processes of mpirun, or as processes
# that RANK and WORLD_SIZE tell where they meet. With a bad end: it must end within seconds, fail, and name the rank.
# Exit 77: not possible here.
set -uo pipefail
kind=$1 ranks=$2 program=$3 end=${4:-}
case $kind in
  mpi)
    command -v mpirun >/dev/null || { echo "skipped: there is no mpirun here"; exit 77; }
    launch=(mpirun --oversubscribe -n "$ranks")
    [ "$(id -u)" -eq 0 ] && launch+=(--allow-run-as-root)
    export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none
    ;;
  tcp) launch=("$(dirname "$0")/each.py" "$ranks") ;;
esac
if [ -z "$end" ] || [ "$end" = -- ]; then
  timeout "${STOA_LAYOUT_SECONDS:-550}" "${launch[@]}" "$program" "${@:5}"
  exit
fi
begin=$(date +%s)
output=$(timeout -k 10 300 "${launch[@]}" "$program" "$end" 2>&1)
status=$?
seconds=$(($(date +%s) - begin))
echo "$output"
echo "status $status after $seconds s"
[ "$status" -ne 0 ] && [ "$status" -ne 124 ] || { echo "FAILED: a job with a dead rank must fail"; exit 1; }
[ "$seconds" -le 200 ] || { echo "FAILED: $seconds s"; exit 1; }
case $end in
  timeout) wanted='ERROR rank 0@.* waits [0-9.]+ s: dp group \(ranks 0, 1\): all_reduce\(sum\) fp32\[100000\] \(400000 bytes\) in backward, chunk 0, microbatch 3; the ranks wait for each other \(rank 1@[^ ]*: tp group \(ranks 0, 1\): barrier\)' ;;
  stopped)
    wanted='ERROR rank 0@.* waits [0-9.]+ s: dp group .*; rank 2@[^ ]* never arrived \(others wait too: rank 1@[^ ]*: tp group \(ranks 0-2\): barrier\)'
    ! grep -q 'rank [01]@[^ ]* never' <<<"$output" || { echo "FAILED: an innocent rank is named"; exit 1; }
    ;;
  exception) wanted='then rank 0@[^ ]*: rank 1@[^ ]* failed: the file is torn' ;;
  size) wanted='all_gather fp32\[1[02]\].*(does not fit|bytes, 4[08] were expected)' ;;
  killed)
    wanted='rank 1 .*signal 9'
    [ "$kind" = tcp ] && wanted='ERROR rank 0@.*the connection to rank 1@[^ ]* was lost: its process is gone'
    ;;
esac
grep -Eq "$wanted" <<<"$(tr '\n' ' ' <<<"$output")" || { echo "FAILED: nothing says $wanted"; exit 1; }
