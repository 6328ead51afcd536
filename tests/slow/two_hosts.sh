#!/usr/bin/env bash
# Two hosts on one machine: network namespaces of their own names, joined by one virtual cable. mpirun starts ranks on both,
# which meet over TCP; every layout must give, bit for bit, what its ranks give as threads of one process. Then a rank on the
# far host is killed, and a run directory that the far host does not share is refused.
#
#   tests/slow/two_hosts.sh [build folder]       needs root, ip (Debian: iproute2) and Open MPI; a minute
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build/release}") source=$PWD
stoa=$build/src/stoa
[ "$(id -u)" -eq 0 ] || { echo "needs root: it makes network namespaces" >&2; exit 2; }
command -v mpirun >/dev/null && command -v ip >/dev/null || { echo "needs mpirun and ip" >&2; exit 2; }

work=$(mktemp -d)
near=stoa-near-$$ far=stoa-far-$$
cleanup() {
  ip netns pids "$near" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
  ip netns pids "$far" 2>/dev/null | xargs -r kill -9 2>/dev/null || true
  ip netns del "$near" 2>/dev/null || true
  ip netns del "$far" 2>/dev/null || true
  rm -rf "$work" "/etc/netns/$near" "/etc/netns/$far"
}
trap cleanup EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

# --- the hosts
ip netns add "$near"
ip netns add "$far"
ip -n "$near" link add cable type veth peer name cable netns "$far"
ip -n "$near" addr add 10.213.7.1/24 dev cable
ip -n "$far" addr add 10.213.7.2/24 dev cable
for host in "$near" "$far"; do
  ip -n "$host" link set lo up
  ip -n "$host" link set cable up
  mkdir -p "/etc/netns/$host"
  printf '127.0.0.1 localhost\n10.213.7.1 %s\n10.213.7.2 %s\n' "$near" "$far" > "/etc/netns/$host/hosts"
done
# on HOST COMMAND…: in its network, under its name, with a folder `own` that the other does not see.
mkdir "$work/own"
cat > "$work/on" <<ON
#!/usr/bin/env bash
host=\$1; shift
exec ip netns exec "\$host" unshare --uts --mount bash -c 'hostname "\$0"; mount -t tmpfs own $work/own; exec bash -c "\$*"' "\$host" "\$@"
ON
chmod +x "$work/on"
# job RANKS ARGUMENTS…: half of the ranks on each host.
job() {
  local ranks=$1; shift
  "$work/on" "$near" "$(printf '%q ' env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 TMPDIR="$work/$near" \
    mpirun --host "$near:$((ranks / 2)),$far:$((ranks / 2))" --oversubscribe --bind-to none -n "$ranks" \
    --mca plm_rsh_agent "$work/on" --mca btl self,vader,tcp --mca btl_tcp_if_include cable --mca oob_tcp_if_include cable \
    "$stoa" "$@")"
}
mkdir "$work/$near" "$work/$far"

# --- what is trained
cd "$work"
. "$source/tests/slow/tiny_run.sh"

# equal NAME RANKS KEY=VALUE…
equal() {
  local name=$1 ranks=$2; shift 2
  "$stoa" train "${run[@]}" --ranks "$ranks" "$@" --output "$name-threads" > "$name.threads.log" 2>&1 ||
    { cat "$name.threads.log"; fail "$name as threads"; }
  job "$ranks" train "${run[@]}" "$@" --output "$name-hosts" > "$name.hosts.log" 2>&1 ||
    { cat "$name.hosts.log"; fail "$name over two hosts"; }
  for file in model/model.safetensors state/optimizer.safetensors; do
    cmp "$name-threads/checkpoints/step-0000004/$file" "$name-hosts/checkpoints/step-0000004/$file" || fail "$name: $file differs"
  done
  echo "$name: $ranks ranks over two hosts, equal to threads in every bit"
}
equal "data parallel, ZeRO-1" 2 model.zero_stage=1
equal "ZeRO-3" 4 model.zero_stage=3
equal "tensor and sequence parallel" 2 model.tensor_model_parallel_size=2 model.sequence_parallel=true
equal "pipeline" 2 model.pipeline_model_parallel_size=2
equal "context parallel" 4 model.context_parallel_size=2
equal "tensor 2, pipeline 2, data 2" 8 model.tensor_model_parallel_size=2 model.sequence_parallel=true model.pipeline_model_parallel_size=2

crossed=$(ip -n "$near" -s -j link show cable | sed -E 's/.*"tx":\{"bytes":([0-9]+).*/\1/')
[ "$crossed" -gt 1000000 ] || fail "only $crossed bytes crossed the cable"
echo "$((crossed / 1000000)) MB went from one host to the other"

# --- a folder that the hosts do not share
if job 2 train "${run[@]}" --output own/run > own.log 2>&1; then fail "a run directory that one host lacks was accepted"; fi
grep -q "ERROR" own.log || { cat own.log; fail "nothing says what is wrong with the run directory"; }
grep -m1 "ERROR" own.log

# --- a host that dies
long=("${run[@]}" trainer.max_steps=100000 model.optim.sched.max_steps=100000 exp_manager.checkpoint_callback_params.every_n_train_steps=2)
job 2 train "${long[@]}" --output killed > killed.log 2>&1 &
job=$!
until ls killed/checkpoints/step-* > /dev/null 2>&1; do
  kill -0 "$job" 2> /dev/null || { cat killed.log; fail "no checkpoint"; }
  sleep 0.1
done
ip netns pids "$far" | xargs -r ps -o pid=,comm= -p | awk '$2 == "stoa" { print $1 }' | xargs -r kill -9
if wait "$job"; then fail "a job whose far rank was killed must fail"; fi
! grep -q "never arrived" killed.log || { tail -20 killed.log; fail "the lost rank was only waited for"; }
grep -Eq "rank 1" killed.log || { tail -20 killed.log; fail "nothing names rank 1"; }
"$stoa" train "${long[@]}" trainer.max_time=00:00:00:03 --ranks 2 model.pipeline_model_parallel_size=2 --output killed \
  > resumed.log 2>&1 || { cat resumed.log; fail "the last checkpoint does not resume"; }
echo "its far rank was killed; resumed in another layout: $(grep -m1 "RESUMED" resumed.log)"
