#!/bin/bash
# The search's choice beside the settings that NVIDIA shipped for GPT (NeMo Framework Launcher 24.12, conf/training/gpt3),
# on the numbers of DGX A100 nodes it names. Predicted, not measured. Usage: bench/planner/nvidia_settings.sh [STOA]
set -euo pipefail
cd "$(dirname "$0")/../.."
stoa=${1:-build/release/src/stoa}
beside() {  # model, GPUs, keys of the shipped file
  echo "== $1 on $2 A100 80GB, shipped: $3"
  "$stoa" plan search "$1" --cluster dgx-a100-80gb --gpus "$2" --target megatron --top 1 --beside "$3" 2>/dev/null |
    sed -n '/^best:/,/^$/p;/^beside it/,$p'
}
common="model.optim.overlap_grad_sync=true model.zero_stage=1"
beside gpt-126m 64 "$common model.micro_batch_size=4"
beside gpt-5b 128 "$common model.micro_batch_size=4"
beside gpt-20b 512 "$common model.micro_batch_size=2 model.tensor_model_parallel_size=2 model.sequence_parallel=true"
beside gpt-40b 1024 "$common model.micro_batch_size=2 model.tensor_model_parallel_size=2 \
  model.pipeline_model_parallel_size=4 model.sequence_parallel=true"
beside gpt-175b 1024 "$common model.micro_batch_size=1 model.tensor_model_parallel_size=4 \
  model.pipeline_model_parallel_size=8 model.virtual_pipeline_model_parallel_size=6 model.sequence_parallel=true"
