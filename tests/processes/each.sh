#!/usr/bin/env bash
# each.sh RANKS COMMAND…: the command once per rank, with the variables of launchers without MPI. Exit status: of the first
# rank that failed. As launchers do, it ends what is left (a stopped rank) some time after that.
set -u
export WORLD_SIZE=$1 MASTER_ADDR=127.0.0.1 MASTER_PORT
shift
MASTER_PORT=$(python3 -c 'import socket; s = socket.socket(); s.bind(("", 0)); print(s.getsockname()[1])')
ranks=()
for ((r = 0; r < WORLD_SIZE; ++r)); do
  RANK=$r LOCAL_RANK=$r "$@" &
  ranks+=($!)
done
status=0 reaper=
for ((r = 0; r < WORLD_SIZE; ++r)); do
  wait -n
  code=$?
  [ $code -ne 0 ] && [ $status -eq 0 ] || continue
  status=$code
  (sleep 15; kill -KILL "${ranks[@]}") > /dev/null 2>&1 &
  reaper=$!
  disown
done
[ -z "$reaper" ] || kill "$reaper" 2> /dev/null
exit $status
