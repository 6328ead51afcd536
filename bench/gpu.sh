#!/usr/bin/env bash
# All figures of the CUDA backend on one GPU, the most important first; no downloads; at most ten minutes.
#
#   OUT=DIR bench/gpu.sh [BUILD [PEER [PARTS]]]   BUILD: folder of the preset `cuda` (default build/cuda); PEER: a script that
#                                                 trains the same model with PyTorch (--preset --micro-batch --seq --steps
#                                                 --mode --device), run on the same GPU between ours; PARTS: a regular
#                                                 expression; only parts with such names run
#
# Each part prints to DIR/NN-name.txt (default runs/gpu-bench). STOA_CUDA_LIBRARIES as in tests/gpu.sh.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/cuda}
peer=${2:-}
parts=${3:-}
out=${OUT:-$root/runs/gpu-bench}
stoa=$build/src/stoa
mkdir -p "$out"

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
  timeout "$1" bash -uo pipefail -c "$(declare -p stoa; declare -f)"$'\n''"$@"' bash "${@:2}"
}
part() {  # part NAME SECONDS COMMAND…
  local name=$1 limit=$2
  shift 2
  [[ $name =~ $parts ]] || return 0
  { echo "$ $*"; limited "$limit" "$@"; } > "$out/$name.txt" 2>&1 || echo "status $?" >> "$out/$name.txt"
  echo "== $name"
  tail -n 12 "$out/$name.txt" | cut -c1-400
}
# stoa's model at a batch, with tuned matrix algorithms and graphs; both conventions of FLOP follow from the figures:
# model_tflops counts causal attention at half.
train() {  # train CONFIG ROWS STEPS OPTIONS…
  local config=$1 rows=$2 steps=$3
  shift 3
  "$stoa" bench train "$config" "model.micro_batch_size=$rows" "model.global_batch_size=$rows" --backend cuda --cuda tune,graphs \
    trainer.precision=bf16 --steps "$steps" --warmup 3 --json "$@"
}

part 01-machine 30 nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv
part 02-gpt2-124m-b32 60 train gpt2-124m 32 20
if [ -n "$peer" ]; then
  part 03-peer-gpt2-124m-b32 100 python3 "$peer" --preset gpt2 --micro-batch 32 --seq 1024 --steps 20 --warmup 5 --device cuda --mode compile
fi
part 04-gpt2-124m-b64 60 train gpt2-124m 64 10
# Dropout off, as for the peer: with it attention is by the kernels of our own.
plain=(model.hidden_dropout=0 model.attention_dropout=0)
part 05-gpt-1.3b-b8 60 train gpt-5b 8 10 model.hidden_size=2048 model.num_attention_heads=16 "${plain[@]}"
part 06-gpt-5b-b4 90 train gpt-5b 4 5 "${plain[@]}"
part 07-attention 60 "$stoa" bench device attention --backend cuda
part 08-streaming 60 "$stoa" bench device copy streaming --backend cuda
part 09-gemm 60 "$stoa" bench device gemm --backend cuda --cuda tune
part 10-own-attention 60 "$stoa" bench device attention --backend cuda --cuda own-attention
# 8 experts, 2 of them per token; encoders and encoder-decoders of the sizes that NeMo trained.
part 11-moe-1.3b-active-b8 60 train gpt-5b 8 5 model.hidden_size=2048 model.num_attention_heads=16 model.bias=none model.num_moe_experts=8 model.moe_router_topk=2 \
  model.moe_ffn_hidden_size=4096 "${plain[@]}"
part 12-bert-110m-b64 60 train bert-110m 64 10 "${plain[@]}"
part 13-t5-3b-b8 90 train t5-3b 8 5 "${plain[@]}"
# Where a step's time goes, operation by operation, and one text's answer.
part 18-profile-gpt2-124m-b32 60 python3 "$root/bench/profile_step.py" --stoa "$stoa" --backend cuda --rows 32 gpt2-124m trainer.precision=bf16
part 19-decode-gpt2-124m 60 "$stoa" bench decode gpt2-124m trainer.precision=bf16 --backend cuda --tokens 128 --rounds 3 --json
part 20-decode-gpt2-124m-graphs 60 "$stoa" bench decode gpt2-124m trainer.precision=bf16 --backend cuda --cuda graphs --tokens 128 --rounds 3 --json
part 21-decode-attention 30 "$stoa" bench device copy decode-attention few-tokens tokens --backend cuda
part 22-quantised 30 "$stoa" bench device quantised --backend cuda
part 23-grouped 60 "$stoa" bench device grouped --backend cuda
part 24-decode-gpt-5b-graphs 60 "$stoa" bench decode gpt-5b trainer.precision=bf16 --backend cuda --cuda graphs --tokens 64 --rounds 3 --json
part 25-peer-decode-gpt2-124m 60 python3 "$root/bench/serve/transformers_decode.py"
# 16 texts at once of a Llama of a billion parameters.
part 26-peer-many-texts 150 python3 "$root/bench/serve/transformers_batch.py" --initial 16x2048 --device cuda --stoa "$stoa" --answer 128 --rounds 2
# Linear layers in 8 bits: beside 05 and 06.
part 15-gpt-1.3b-b8-fp8 60 train gpt-5b 8 10 model.hidden_size=2048 model.num_attention_heads=16 model.fp8=hybrid "${plain[@]}"
part 16-gpt-5b-b4-fp8 90 train gpt-5b 4 5 model.fp8=hybrid "${plain[@]}"
part 17-fp8 60 "$stoa" bench device fp8 --backend cuda --cuda tune --width 4096 --tokens 8192
if [ -n "$peer" ]; then
  part 14-peer-gpt-1.3b-b8 90 python3 "$peer" --preset gpt-1.3b --micro-batch 8 --seq 2048 --steps 8 --warmup 3 --device cuda --mode compile
fi
