#!/usr/bin/env bash
# Ranks that Slurm starts: a Slurm of one node is set up in a folder of its own, `srun --mpi=pmix` must give, bit for bit,
# what threads give; a job that is told to stop saves, is requeued by its script, and goes on to its end; the job that
# `stoa plan search --output` writes runs as it is, and is queued again before its time ends.
#
#   tests/slow/slurm.sh [build folder]       needs root and Debian's slurmctld slurmd slurm-client munge; a minute
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build/release}") source=$PWD
stoa=$build/src/stoa
[ "$(id -u)" -eq 0 ] || { echo "needs root: slurmd does" >&2; exit 2; }
for program in slurmctld slurmd srun munged; do
  command -v "$program" >/dev/null || { echo "$program is missing: apt install slurmctld slurmd slurm-client munge" >&2; exit 2; }
done

work=$(mktemp -d)
cleanup() {
  scancel --full --user=root 2>/dev/null || true  # a job outlives the daemon that started it
  for _ in $(seq 100); do [ -z "$(squeue -h 2>/dev/null)" ] && break; sleep 0.1; done
  for name in slurmd slurmctld munged; do
    [ -f "$work/$name.pid" ] && kill "$(cat "$work/$name.pid")" 2>/dev/null
  done
  sleep 1
  rm -rf "$work"
}
trap cleanup EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

# --- the scheduler
chmod 755 "$work"
mkdir "$work/spool" "$work/state"
dd if=/dev/urandom of="$work/key" bs=128 count=1 status=none
chmod 400 "$work/key"
munged --force --key-file="$work/key" --socket="$work/munge" --pid-file="$work/munged.pid" --log-file="$work/munged.log" \
  --seed-file="$work/seed" 2> /dev/null
cat > "$work/slurm.conf" <<CONF
ClusterName=one
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
AuthType=auth/munge
AuthInfo=socket=$work/munge
CredType=cred/munge
SlurmUser=root
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=60
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd.log
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=8 CoresPerSocket=8 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES State=UP
CONF
export SLURM_CONF=$work/slurm.conf
slurmctld -c
slurmd -c
for _ in $(seq 100); do [ "$(sinfo -h -o %T 2>/dev/null)" = idle ] && break; sleep 0.1; done
[ "$(sinfo -h -o %T)" = idle ] || { cat "$work"/*.log; fail "Slurm does not start"; }

# --- what is trained
cd "$work"
. "$source/tests/slow/tiny_run.sh"
run+=(model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2)
"$stoa" train "${run[@]}" --ranks 4 --output threads > threads.log 2>&1 || { cat threads.log; fail "threads"; }

# --- the same run
timeout 120 srun -n 4 --mpi=pmix "$stoa" train "${run[@]}" --output processes > srun.log 2>&1 || { cat srun.log; fail "srun"; }
for file in model/model.safetensors state/optimizer.safetensors; do
  cmp "threads/checkpoints/step-0000004/$file" "processes/checkpoints/step-0000004/$file" || fail "$file differs"
done
echo "4 ranks of srun: equal to threads in every bit"

# --- a job that is stopped and requeued
cat > job.sh <<JOB
#!/usr/bin/env bash
#SBATCH --ntasks=4 --requeue --open-mode=append --output=$work/job.log
srun --mpi=pmix $stoa train $(printf '%q ' "${run[@]}") trainer.max_steps=300 model.optim.sched.max_steps=300 --output $work/requeued
[ \$? -eq 0 ] && [ ! -e $work/stopped ] && exit 0
mv $work/stopped $work/requeued-once && scontrol requeue \$SLURM_JOB_ID
JOB
id=$(sbatch --parsable job.sh)
for _ in $(seq 300); do grep -q '^step' job.log 2>/dev/null && break; sleep 0.1; done
touch stopped
scancel --signal=TERM "$id"
for _ in $(seq 300); do [ "$(squeue -h -j "$id" -o %T)" = PENDING ] && break; sleep 0.1; done
scontrol update JobId="$id" StartTime=now  # a requeued job waits for minutes otherwise
for _ in $(seq 6000); do grep -q 'RESUMED' job.log && break; sleep 0.1; done
grep -q 'RESUMED' job.log || { cat job.log; fail "the requeued job does not resume"; }
for _ in $(seq 6000); do [ -d requeued/checkpoints/step-0000300 ] && break; sleep 0.1; done
[ -d requeued/checkpoints/step-0000300 ] || { cat job.log; fail "the requeued job does not end"; }
echo "stopped by SIGTERM, requeued: $(grep -m1 RESUMED job.log)"

# --- the job of a plan
mkdir planned
cat > planned/here.yaml <<YAML
name: here
device: {name: core, family: CPU, fp32_tflops: 0.1, bf16_tflops: 0.1, fp16_tflops: 0.1, memory_gb: 4, memory_bandwidth_gbs: 10}
links: {devices_per_node: 4, devices_per_island: 4, island_bandwidth_gbs: 5, host_is_device: true}
YAML
"$stoa" plan search "${run[@]}" trainer.max_steps=300 model.optim.sched.max_steps=300 --cluster planned/here.yaml --gpus 4 --top 1 \
  --output planned > search.log 2>&1 || { cat search.log; fail "plan search"; }
id=$(PATH=$build/src:$PATH sbatch --parsable --export=ALL planned/plan.sbatch)
log=
for _ in $(seq 300); do log=$(ls ./*-"$id".log 2>/dev/null || true); [ -n "$log" ] && grep -q '^step' "$log" && break; sleep 0.1; done
[ -n "$log" ] && grep -q '^step' "$log" || { cat ./*-"$id".log planned/plan.sbatch; fail "plan.sbatch does not train"; }
scancel --batch --signal=USR1 "$id"  # as --signal does before the time limit
for _ in $(seq 600); do [ "$(squeue -h -j "$id" -o %T)" = PENDING ] && break; sleep 0.1; done
scontrol update JobId="$id" StartTime=now
for _ in $(seq 6000); do grep -q 'RESUMED' "$log" && break; sleep 0.1; done
grep -q 'RESUMED' "$log" || { cat "$log"; fail "the job of the plan does not resume"; }
for _ in $(seq 6000); do ls -d runs/*/checkpoints/step-0000300 > /dev/null 2>&1 && break; sleep 0.1; done
ls -d runs/*/checkpoints/step-0000300 > /dev/null || { cat "$log"; fail "the job of the plan does not end"; }
echo "plan.sbatch as it was written, told to end, queued again: $(grep -m1 RESUMED "$log")"
