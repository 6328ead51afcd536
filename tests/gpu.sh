#!/usr/bin/env bash
# All proofs of the CUDA backend on one GPU (and, where there are more, between them), the most important first; no downloads; at most ten minutes.
#
#   OUT=DIR tests/gpu.sh [BUILD [PARTS]]     BUILD: folder of the preset `cuda` (default build/cuda): BUILD/src/stoa, BUILD/tests/gpu_test
#                                            PARTS: a regular expression; only parts with such names run (03-data always does)
#
# Each part prints to DIR/NN-name.txt (default runs/gpu) and one line "ok" or "FAILED" to DIR/summary.txt. Libraries:
# STOA_CUDA_LIBRARIES names folders of libcublasLt.so.13, libcudnn.so.9 and libcudart.so.13; without it, those of an
# installed PyTorch are looked for.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/cuda}
parts=${2:-}
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

# timeout starts programs alone, so functions go to a shell of their own with the variables they use.
limited() {  # limited SECONDS COMMAND…
  timeout "$1" bash -uo pipefail -c "$(declare -p root build stoa work quiet model small short layouts_of_two 2> /dev/null; declare -f)"$'\n''"$@"' bash "${@:2}"
}
part() {  # part NAME SECONDS COMMAND…
  local name=$1 limit=$2 begin=$SECONDS
  shift 2
  [[ $name =~ $parts || $name = 03-data ]] || return
  if limited "$limit" "$@" > "$out/$name.txt" 2>&1; then
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
# No kernel of Stoa's own was found wrong when the machine was made, nor what would take its place.
self_check() {
  local options
  for options in graphs plain-kernels; do
    "$stoa" bench device copy --backend cuda --cuda $options 2>&1 | tee "$work/self-check.txt"
    [ "${PIPESTATUS[0]}" = 0 ] && ! grep "self-check" "$work/self-check.txt" || return 1
  done
}
part 01-self-check 60 self_check
# Tests are shared out among processes: most of their time is the reference's, on one core.
operations() {
  local shards=$(($(nproc) < 12 ? $(nproc) : 12)) shard status=0 running=()
  for ((shard = 0; shard < shards; ++shard)); do
    GTEST_TOTAL_SHARDS=$shards GTEST_SHARD_INDEX=$shard "$build/tests/gpu_test" > "$work/operations-$shard.txt" 2>&1 &
    running+=($!)
  done
  for shard in "${running[@]}"; do wait "$shard" || status=1; done
  cat "$work"/operations-*.txt
  grep -h -E '^\[  FAILED  \] .* \(' "$work"/operations-*.txt | tail -n 2
  return $status
}
part 02-operations 150 operations

# A small corpus of this repository's own text.
prepare() {
  cat "$root"/README.md "$root"/docs/*.md > "$work/text.txt" &&
    "$stoa" tokenizer train "$work/text.txt" --vocab-size 1024 --output "$work/tok" &&
    "$stoa" data prepare "$work/text.txt" --tokenizer "$work/tok" --output "$work/data" --text-split paragraph
}
part 03-data 60 prepare

quiet=(exp_manager.create_tensorboard_logger=false trainer.log_every_n_steps=1)
model=("model.data=$work/data" "model.tokenizer=$work/tok" model.optim.sched.decay_steps=50 "${quiet[@]}")
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
  train "cpu-$1" cpu trainer.max_steps=50 "trainer.precision=$1" &&
    train "cuda-$1" cuda trainer.max_steps=50 "trainer.precision=$1" && compare "cpu-$1" "cuda-$1" "$2"
}
part 04-fifty-steps-fp32 90 fifty 32 2e-3
part 05-fifty-steps-bf16 90 fifty bf16 5e-2

# A run that began on one machine goes on on the other.
resume() {  # resume FROM TO
  train "resume-$1" "$1" trainer.max_steps=20 &&
    train "resume-$1" "$2" trainer.max_steps=40 exp_manager.resume_if_exists=true &&
    train "whole-$1" "$1" trainer.max_steps=40 && compare "resume-$1" "whole-$1" 5e-2
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
  train plain cuda trainer.max_steps=30 --cuda deterministic &&
    train graphs cuda trainer.max_steps=30 --cuda deterministic,graphs && compare plain graphs 0
}
part 10-graphs-same-bits 60 graphs
shared_graphs() {
  train shared-graphs cuda --ranks 2 --cuda graphs,device=0 model.micro_batch_size=4 > "$work/shared-graphs.txt" 2>&1 && return 1
  grep "CUDA option graphs: ranks share" "$work/shared-graphs.txt"
}
part 10-graphs-of-ranks-that-share-refused 30 shared_graphs
again() { train again cuda trainer.max_steps=30 --cuda deterministic && compare plain again 0; }
part 11-deterministic-repeats 60 again
# Saved activations that wait in pinned memory, copied behind and ahead of the computation.
offloaded() {
  train offloaded cuda trainer.max_steps=30 --cuda deterministic model.cpu_offloading=true && compare plain offloaded 0 &&
    train offloaded-graphs cuda trainer.max_steps=30 --cuda deterministic,graphs model.cpu_offloading=true && compare plain offloaded-graphs 0
}
part 12-offloaded-activations-same-bits 90 offloaded

# What decoders alone do not ask for: 30 steps in fp32 beside the CPU. An expert's choice may fall the other way where two
# are nearly equal.
beside() {  # beside NAME TOLERANCE CONFIG OPTIONS…
  local name=$1 tolerance=$2 backend
  shift 2
  for backend in cpu cuda; do
    "$stoa" train "$@" "${quiet[@]}" trainer.precision=32 trainer.max_steps=30 model.optim.sched.decay_steps=30 --backend "$backend" \
      --output "$work/$backend-$name" || return 1
  done
  compare "cpu-$name" "cuda-$name" "$tolerance"
}
small=(model.num_layers=2 model.hidden_size=64 model.num_attention_heads=4 model.micro_batch_size=4 model.global_batch_size=8)
part 13-experts 60 beside experts 1e-2 moe-tiny "${model[@]}" model.moe_expert_capacity_factor=1
part 14-latent-attention 60 beside latent 1e-2 deepseek-tiny "${model[@]}"
part 15-muon 60 beside muon 2e-3 tiny "${model[@]}" model.optim.name=muon
bert() {
  "$stoa" tokenizer train "$work/text.txt" --kind wordpiece --vocab-size 1024 --output "$work/pieces" &&
    "$stoa" data prepare "$work/text.txt" --tokenizer "$work/pieces" --text-split paragraph --split-sentences --output "$work/sentences" &&
    beside bert 2e-3 bert-110m "model.data=$work/sentences" "model.tokenizer=$work/pieces" model.vocab_size=null "${small[@]}" \
      model.encoder_seq_length=64 model.bert.binary_head=true model.optim.sched.warmup_steps=0 model.optim.sched.constant_steps=0
}
part 16-bert 60 bert
t5() {
  "$stoa" tokenizer train "$work/text.txt" --kind unigram --vocab-size 1024 --sentinels 100 --output "$work/spans" &&
    "$stoa" data prepare "$work/text.txt" --tokenizer "$work/spans" --text-split paragraph --output "$work/pairs" &&
    beside t5 2e-3 t5-220m "model.data=$work/pairs" "model.tokenizer=$work/spans" model.vocab_size=null "${small[@]}" \
      model.kv_channels=16 model.ffn_hidden_size=128 model.encoder_seq_length=128 model.t5.seq_length_dec=32 model.t5.encoder_layers=1 \
      'model.data.splits_string="90,5,5"'
}
part 17-t5 60 t5

# Ranks that are threads share the GPU: layouts against one rank of the CPU, step by step.
layout() {  # layout NAME RANKS OVERRIDES…
  local name=$1 ranks=$2
  shift 2
  train "layout-$name" cuda trainer.max_steps=10 trainer.precision=32 --ranks "$ranks" --cuda device=0 "$@" && compare layout-one "layout-$name" 1e-3
}
layouts() {
  train layout-one cpu trainer.max_steps=10 trainer.precision=32 &&
    layout tp 2 model.tensor_model_parallel_size=2 &&
    layout sp 2 model.tensor_model_parallel_size=2 model.sequence_parallel=true &&
    layout pp 2 model.pipeline_model_parallel_size=2 &&
    layout cp 2 model.context_parallel_size=2 &&
    layout zero 4 model.micro_batch_size=2 model.zero_stage=3 &&
    layout all 8 model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2 model.micro_batch_size=2 model.zero_stage=2
}
part 18-layouts-on-one-gpu 120 layouts

# Linear layers in 8 bits, beside the CPU's and beside bf16, and experts; of GPUs before Ada none has them.
eight_bits() {
  train cpu-fp8 cpu trainer.max_steps=50 trainer.precision=bf16 model.fp8=hybrid &&
    train cuda-fp8 cuda trainer.max_steps=50 trainer.precision=bf16 model.fp8=hybrid &&
    compare cpu-fp8 cuda-fp8 5e-2 && compare cpu-bf16 cuda-fp8 1e-1 &&
    train cuda-delayed cuda trainer.max_steps=50 trainer.precision=bf16 model.fp8=hybrid model.fp8_recipe=delayed &&
    compare cpu-bf16 cuda-delayed 1e-1 &&
    beside experts-fp8 5e-2 moe-tiny "${model[@]}" model.fp8=hybrid &&
    beside experts-delayed 5e-2 moe-tiny "${model[@]}" model.fp8=hybrid model.fp8_recipe=delayed
}
part 20-eight-bits 180 eight_bits

# Answers of a trained model: greedy ones to one text and to several at once, equal to the CPU's in fp32; losses of a text.
prompts() {
  train answers cpu trainer.max_steps=50 trainer.precision=32 || return 1
  printf 'The model\nA checkpoint of\nTensor parallelism\nOn GPUs\n' > "$work/prompts.txt"
  head -c 20000 "$work/text.txt" > "$work/held.txt"
}
answers_of() {  # answers_of NAME MODEL: on both backends
  local backend
  for backend in cpu cuda; do
    "$stoa" generate "$2" --prompt 'The model' --max-tokens 60 --greedy --backend "$backend" > "$work/$1-one-$backend.txt" &&
      "$stoa" generate "$2" --prompts "$work/prompts.txt" --max-tokens 40 --greedy --backend "$backend" > "$work/$1-many-$backend.txt" &&
      "$stoa" eval perplexity "$2" --text "$work/held.txt" --backend "$backend" --json > "$work/$1-$backend.json" || return 1
  done
  python3 - "$work/$1-cpu.json" "$work/$1-cuda.json" "$3" <<'PY'
import json, sys
cpu, gpu = (json.load(open(path))["loss"] for path in sys.argv[1:3])
print("loss", cpu, gpu, "allowed", sys.argv[3])
sys.exit(abs(cpu - gpu) > float(sys.argv[3]))
PY
}
answers() {
  prompts && answers_of plain "$work/answers" 1e-5 && cmp "$work"/plain-one-{cpu,cuda}.txt && cmp "$work"/plain-many-{cpu,cuda}.txt
}
part 24-answers 90 answers
# Weights multiplied as files hold them.
stored() {
  local format
  for format in q8_0 q4_0; do
    "$stoa" checkpoint quantize "$work/answers" --format "$format" --output "$work/$format.gguf" && answers_of "$format" "$work/$format.gguf" 2e-3 || return 1
  done
}
part 25-stored-weights 90 stored
# Sixteen clients at once get what one text gets alone.
served() {
  "$stoa" serve "$work/answers" --backend cuda --port 0 > "$work/listening.txt" 2> "$work/serve.txt" &
  local server=$! status
  python3 - "$work/listening.txt" "$work/plain-one-cuda.txt" <<'PY'
import concurrent.futures, json, sys, time, urllib.request
for _ in range(300):
    words = open(sys.argv[1]).read().split()
    if words: break
    time.sleep(0.1)
def ask(_):
    body = json.dumps({"prompt": "The model", "max_tokens": 60, "temperature": 0}).encode()
    request = urllib.request.Request(words[-1] + "/v1/completions", body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=60))["choices"][0]["text"]
with concurrent.futures.ThreadPoolExecutor(16) as pool: answers = list(pool.map(ask, range(64)))
alone = open(sys.argv[2]).read().rstrip("\n")
print(len(answers), "answers,", sum(a.rstrip("\n") == alone for a in answers), "of them as alone")
sys.exit(any(a.rstrip("\n") != alone for a in answers))
PY
  status=$?
  kill -TERM "$server" && wait "$server" && return $status
}
part 26-served 60 served
# Low-rank adapters of a frozen model in 16, 8 and 4 bits, full tuning of an encoder in bf16.
tuned() {
  "$stoa" checkpoint export "$work/answers" --dtype fp32 --output "$work/base" || return 1
  local format
  for format in none int8 nf4; do
    beside "tuned-$format" 2e-3 "$work/base" "${model[@]}" model.micro_batch_size=4 model.global_batch_size=8 model.encoder_seq_length=64 \
      model.peft.peft_scheme=lora "model.peft.quantize_base=$format" model.optim.lr=0.01 || return 1
  done
}
part 27-adapters 90 tuned
bert_bf16() {
  "$stoa" bench train bert-110m model.micro_batch_size=4 model.global_batch_size=4 trainer.precision=bf16 --backend cuda --steps 2 --warmup 1
}
part 28-bert-bf16 60 bert_bf16

# A rank per GPU, by NCCL, beside one rank: only where there are two GPUs.
layouts_of_two=(model.tensor_model_parallel_size=2 model.pipeline_model_parallel_size=2 model.context_parallel_size=2 model.zero_stage=1
  model.zero_stage=3 model.optim.name=muon)
short=(trainer.max_steps=10 trainer.precision=32 model.micro_batch_size=4)
one_rank() {
  train own-one cuda "${short[@]}" && train own-one-muon cuda "${short[@]}" model.optim.name=muon
}
beside_one() {  # beside_one NAME OVERRIDES…: the run of that name
  case $* in *=muon*) compare own-one-muon "$1" 1e-3 ;; *) compare own-one "$1" 1e-3 ;; esac
}
processes() {
  one_rank || return 1
  local layout
  for layout in "${layouts_of_two[@]}"; do
    "$root/tests/processes/each.py" 2 "$stoa" train tiny "${model[@]}" "${short[@]}" "$layout" --backend cuda \
      --output "$work/processes-$layout" && beside_one "processes-$layout" "$layout" || return 1
  done
}
# Threads with a GPU each, and what needs four; a rank too many is refused.
threads() {
  local layout gpus
  gpus=$(nvidia-smi --list-gpus | wc -l)
  for layout in "${layouts_of_two[@]}"; do
    train "threads-$layout" cuda "${short[@]}" --ranks 2 "$layout" && beside_one "threads-$layout" "$layout" || return 1
  done
  if [ "$gpus" -ge 4 ]; then
    train threads-groups cuda "${short[@]}" --ranks 4 model.context_parallel_size=4 model.cp_comm_type=a2a+p2p \
      'model.hierarchical_context_parallel_sizes=[2,2]' && compare own-one threads-groups 1e-3 || return 1
  fi
  train threads-many cuda "${short[@]}" --ranks $((gpus * 2)) "model.global_batch_size=$((gpus * 8))" > "$work/many.txt" 2>&1 && return 1
  grep "ranks that are threads on $gpus GPUs" "$work/many.txt"
}
# Steps as graphs, of threads and of processes, and their end: NCCL keeps communicators until the graphs are gone.
recorded() {
  local layout
  one_rank || return 1
  for layout in "${layouts_of_two[@]}"; do
    train "graphs-$layout" cuda "${short[@]}" --ranks 2 --cuda graphs "$layout" && beside_one "graphs-$layout" "$layout" || return 1
  done
  "$root/tests/processes/each.py" 2 "$stoa" train tiny "${model[@]}" "${short[@]}" model.zero_stage=1 model.overlap_grad_reduce=true \
    --backend cuda --cuda graphs --output "$work/graphs-processes" && beside_one graphs-processes
}
if [ "$(nvidia-smi --list-gpus | wc -l)" -ge 2 ]; then
  part 21-a-process-per-gpu 150 processes
  part 22-threads-with-a-gpu-each 150 threads
  part 23-graphs-with-a-gpu-each 150 recorded
else
  echo "skipped 21-a-process-per-gpu, 22-threads-with-a-gpu-each, 23-graphs-with-a-gpu-each: one GPU here" | tee -a "$out/summary.txt"
fi

if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck initcheck; do
    part "19-sanitizer-$tool" 60 compute-sanitizer --tool "$tool" --error-exitcode 9 "$build/tests/gpu_test" --gtest_brief=1 \
      --gtest_filter="*Norm*/own_attention:*Rotary*/own_attention:*Embedding*/own_attention:*CrossEntropy*/own_attention:*Expert*/own_attention:*Router*/own_attention:*Arrivals*/own_attention:*AttentionOfOne*/own_attention:*QueriesThat*/own_attention"
  done
else
  echo "skipped 19-sanitizer: no compute-sanitizer here" | tee -a "$out/summary.txt"
fi
exit $failed
