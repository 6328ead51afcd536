#!/usr/bin/env bash
# All proofs of the CUDA backend on one GPU, the most important first; no downloads; at most ten minutes.
#
#   OUT=DIR tests/gpu.sh [BUILD]     BUILD: folder of the preset `cuda` (default build/cuda): BUILD/src/stoa, BUILD/tests/gpu_test
#
# Each part prints to DIR/NN-name.txt (default runs/gpu) and one line "ok" or "FAILED" to DIR/summary.txt. Libraries:
# STOA_CUDA_LIBRARIES names folders of libcublasLt.so.13, libcudnn.so.9 and libcudart.so.13; without it, those of an
# installed PyTorch are looked for.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/cuda}
out=${OUT:-$root/runs/gpu}
stoa=$build/src/stoa
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
: > "$out/summary.txt"
failed=0

if [ -z "${STOA_CUDA_LIBRARIES:-}" ]; then
  STOA_CUDA_LIBRARIES=$(python3 - <<'PY' 2>/dev/null
import glob, os, sysconfig
site = sysconfig.get_paths()["purelib"]
print(":".join(sorted(d for d in glob.glob(os.path.join(site, "nvidia", "*", "lib")) if glob.glob(os.path.join(d, "*.so*")))))
PY
)
  export STOA_CUDA_LIBRARIES
fi

part() {  # part NAME SECONDS COMMAND…
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  if timeout "$limit" "$@" > "$out/$name.txt" 2>&1; then
    echo "ok      $name ($((SECONDS - begin)) s)" | tee -a "$out/summary.txt"
  else
    echo "FAILED  $name (status $?, $((SECONDS - begin)) s): $(tail -n 2 "$out/$name.txt" | tr '\n' ' ' | cut -c1-300)" | tee -a "$out/summary.txt"
    failed=1
  fi
}

machine() {
  nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv
  echo "libraries: $STOA_CUDA_LIBRARIES"
  "$stoa" bench device copy --backend cuda
}
part 01-machine 60 machine
part 02-operations 150 "$build/tests/gpu_test" --gtest_brief=1

# A small corpus of this repository's own text.
prepare() {
  cat "$root"/README.md "$root"/docs/*.md > "$work/text.txt" &&
    "$stoa" tokenizer train "$work/text.txt" --vocab-size 1024 --output "$work/tok" &&
    "$stoa" data prepare "$work/text.txt" --tokenizer "$work/tok" --output "$work/data" --text-split paragraph
}
part 03-data 60 prepare

model=("model.data=$work/data" "model.tokenizer=$work/tok" model.optim.sched.decay_steps=50 exp_manager.create_tensorboard_logger=false)
train() {  # train NAME BACKEND OPTIONS…
  local name=$1 backend=$2
  shift 2
  "$stoa" train tiny "${model[@]}" "$@" --backend "$backend" --output "$work/$name"
}
# Losses of two runs, step by step, within a tolerance.
compare() {
  python3 - "$work/$1/metrics.jsonl" "$work/$2/metrics.jsonl" "$3" <<'PY'
import json, sys
def losses(path):
    out = {}
    for line in open(path):
        record = json.loads(line)
        if record.get("loss") is not None: out[record["step"]] = record["loss"]
    return out
a, b, tolerance = losses(sys.argv[1]), losses(sys.argv[2]), float(sys.argv[3])
steps = sorted(set(a) & set(b))
worst = max((abs(a[s] - b[s]), s) for s in steps)
for s in steps: print(s, a[s], b[s], abs(a[s] - b[s]))
print(f"{len(steps)} steps, largest difference {worst[0]:.3g} at step {worst[1]}, allowed {tolerance}")
sys.exit(not steps or worst[0] > tolerance)
PY
}
fifty() {  # fifty PRECISION TOLERANCE
  train "cpu-$1" cpu trainer.max_steps=50 trainer.log_every_n_steps=1 "trainer.precision=$1" &&
    train "cuda-$1" cuda trainer.max_steps=50 trainer.log_every_n_steps=1 "trainer.precision=$1" && compare "cpu-$1" "cuda-$1" "$2"
}
part 04-fifty-steps-fp32 90 fifty 32 2e-3
part 05-fifty-steps-bf16 90 fifty bf16 5e-2

# A run that began on one machine goes on on the other.
resume() {  # resume FROM TO
  train "resume-$1" "$1" trainer.max_steps=20 trainer.log_every_n_steps=1 &&
    train "resume-$1" "$2" trainer.max_steps=40 trainer.log_every_n_steps=1 exp_manager.resume_if_exists=true &&
    train "whole-$1" "$1" trainer.max_steps=40 trainer.log_every_n_steps=1 && compare "resume-$1" "whole-$1" 5e-2
}
part 06-checkpoint-cuda-to-cpu 60 resume cuda cpu
part 07-checkpoint-cpu-to-cuda 60 resume cpu cuda

# Planned memory is what was allocated, byte for byte.
plan_is_arena() {
  "$stoa" bench train tiny "model.vocab_size=1024" --backend cuda --steps 2 --warmup 1 --json | tee "$work/plan.json"
  python3 - "$work/plan.json" <<'PY'
import json, sys
r = json.loads(open(sys.argv[1]).read().strip().splitlines()[-1])
print("planned", r["planned_memory_bytes"], "arena", r["arena_peak_bytes"])
sys.exit(r["planned_memory_bytes"] != r["arena_peak_bytes"])
PY
}
part 08-plan-is-arena 60 plan_is_arena

check_cuda() { train check check-cuda trainer.max_steps=3; }
part 09-check-cuda-beside-cpu 60 check_cuda
graphs() {
  train plain cuda trainer.max_steps=30 trainer.log_every_n_steps=1 --cuda deterministic &&
    train graphs cuda trainer.max_steps=30 trainer.log_every_n_steps=1 --cuda deterministic,graphs && compare plain graphs 0
}
part 10-graphs-same-bits 60 graphs
again() { train again cuda trainer.max_steps=30 trainer.log_every_n_steps=1 --cuda deterministic && compare plain again 0; }
part 11-deterministic-repeats 60 again

if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck; do
    part "12-sanitizer-$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/gpu_test" --gtest_brief=1 \
      --gtest_filter="*own_attention*Norm*:*own_attention*Rotary*:*own_attention*Embedding*:*own_attention*CrossEntropy*"
  done
else
  echo "skipped 12-sanitizer: no compute-sanitizer here" | tee -a "$out/summary.txt"
fi
exit $failed
