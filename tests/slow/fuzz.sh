#!/usr/bin/env bash
# Runs the parsers of untrusted bytes under libFuzzer with address and undefined-behaviour sanitizers: safetensors and
# manifests, files of torch.save, .idx, tokenizer.json, .tiktoken and tekken.json, vocab.txt, YAML, chat templates,
# shell scripts and arguments of Megatron-LM, files of NeMo, tuning data, evaluation tasks; of the data factory archives, pages, Wikipedia's dumps, Parquet files,
# classifiers of fastText and ARPA files.
#
#   tests/slow/fuzz.sh [seconds per target] [target…]      default: 300 seconds, all targets
#
# Needs clang 14 or later with its run-time libraries (Debian: clang libclang-rt-dev). What it learns stays in
# build/fuzz/corpus; an input that fails lies in build/fuzz/found, and the program of the target takes it as argument.
set -euo pipefail
cd "$(dirname "$0")/../.."
seconds=${1:-300}; shift || true
targets=("$@")
[ $# -gt 0 ] || targets=(safetensors torch_file idx tokenizer_json ranked_tokens vocab_txt yaml chat_template foreign nemo record task
  warc html wiki parquet fasttext arpa)
command -v clang++ >/dev/null || { echo "clang++ is missing: apt install clang libclang-rt-dev" >&2; exit 1; }
cmake --preset fuzz >/dev/null
cmake --build --preset fuzz --target "${targets[@]/#/fuzz_}" >&2
python3 tests/slow/fuzz_seeds.py build/fuzz/seeds
mkdir -p build/fuzz/found
failed=0
for target in "${targets[@]}"; do
  mkdir -p "build/fuzz/corpus/$target"
  program=$(find build/fuzz/src -name "fuzz_$target" -type f)
  log=build/fuzz/$target.log
  if ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0 UBSAN_OPTIONS=print_stacktrace=1 \
     "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -malloc_limit_mb=512 -max_len=16384 -print_final_stats=1 \
     -dict="build/fuzz/seeds/$target.dict" -artifact_prefix="build/fuzz/found/$target-" \
     "build/fuzz/corpus/$target" "build/fuzz/seeds/$target" > "$log" 2>&1
  then echo "$target: nothing found ($(sed -n 's/stat::number_of_executed_units: *//p' "$log") runs, $(ls "build/fuzz/corpus/$target" | wc -l) inputs kept)"
  else failed=1; echo "$target: FOUND SOMETHING"; grep -E "ERROR|SUMMARY|runtime error|Test unit written|what\(\)" "$log" || tail -20 "$log"
  fi
done
exit $failed
