#!/usr/bin/env bash
# each.sh RANKS COMMAND…: the command once per rank, with the variables of launchers without MPI. Exit status: of the first
# rank that failed. As launchers do, it ends what is left (a stopped rank) some time after that.
set -u
export WORLD_SIZE=$1 MASTER_ADDR=127.0.0.1 MASTER_PORT
shift
# Below the ports that the system gives to connections: nobody's connection takes it before rank 0 listens there.
MASTER_PORT=$(python3 - <<'END'
import random, socket
while True:
    port = random.randrange(20000, 32000)
    try:
        socket.socket().bind(("", port))
        break
    except OSError:
        pass
print(port)
END
)
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
