#!/usr/bin/env bash
# scripts/build.sh says one line of progress, shows what failed and installs; scripts/quickstart.sh keeps earlier models.
# With stand-ins for cmake and stoa: nothing is built or trained.   build_scripts.sh SOURCES
set -euo pipefail
sources=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2; exit 1; }

mkdir -p "$work/copy" "$work/bin"
cp -r "$sources/scripts" "$sources/configs" "$work/copy"
cat > "$work/bin/cmake" <<'CMAKE'
#!/usr/bin/env bash
echo "$*" >> "$CALLS"
case $1 in
  --preset) for i in $(seq 30); do echo "-- Found library $i"; done ;;
  --build)
    for i in $(seq 135); do echo "[$i/135] Building CXX object $i.cc.o"; done
    if [ -n "${BREAK:-}" ]; then echo "FAILED: 7.cc.o"; echo "7.cc:3: error: expected ';'"; exit 1; fi ;;
  --install) mkdir -p "$4/bin"; echo '#!/bin/sh' > "$4/bin/stoa" ;;
esac
CMAKE
chmod +x "$work/bin/cmake"
export PATH=$work/bin:$PATH CALLS=$work/calls

cd "$work/copy"
scripts/build.sh > out 2> err || fail "$(cat err)"
[ "$(wc -l < err)" = 1 ] || fail "more than a line of progress: $(cat err)"
[ "$(cat out)" = build/release/src/stoa ] || fail "$(cat out)"
grep -q "135/135" build/release/build.log || fail "the log lacks the build"
scripts/build.sh --program debug -DX=1 > out 2> err
grep -q -- "--preset debug -DX=1" "$CALLS" && grep -q -- "--build --preset debug --target stoa" "$CALLS" || fail "$(cat "$CALLS")"
BREAK=1 scripts/build.sh > out 2> err && fail "a failed build passes"
grep -q "7.cc:3: error" err && grep -q "build/release/build.log" err || fail "the error is not shown: $(cat err)"
scripts/build.sh --install "$work/prefix" > out 2> err
[ -e "$work/prefix/bin/stoa" ] && [ "$(cat out)" = "$work/prefix/bin/stoa" ] || fail "$(cat out err)"
grep -q "export PATH=\"$work/prefix/bin" err || fail "nothing about the PATH: $(cat err)"
PATH=$work/prefix/bin:$PATH scripts/build.sh --install "$work/prefix" > out 2> err
if grep -q "export PATH" err; then fail "PATH holds it already"; fi
if scripts/build.sh --install > out 2> err; then fail "--install without a folder passes"; fi

# The second model goes beside the first, and that is said.
cat > "$work/bin/program" <<'STOA'
#!/usr/bin/env bash
if [ "$1 $2" = "data text" ]; then shift 2; exec cat -- "$@"; fi
while [ $# -gt 0 ]; do
  if [ "$1" = --output ] && [[ "$2" == */run ]]; then
    mkdir -p "$2"
    echo "$RANDOM$RANDOM" > "$2/model"
    printf '{"val_bits_per_byte":%s}\n' 3.5 2.34567 > "$2/metrics.jsonl"
  fi
  shift
done
echo '{"tokens":9000,"tokens_per_second":1000}'
STOA
chmod +x "$work/bin/program"
for i in $(seq 40); do printf 'document %d has some words\n\n' "$i"; done > text.txt
export STOA=$work/bin/program OUTPUT=$work/quick MINUTES=0.01
scripts/quickstart.sh text.txt > first 2>&1 || fail "$(cat first)"
cp "$OUTPUT/run/model" kept
grep -q "the model *2.346  bits per byte (as in the report)" first || fail "the figure of the report is not that of the console: $(cat first)"
scripts/quickstart.sh text.txt > second 2>&1 || fail "$(cat second)"
cmp -s kept "$OUTPUT/run/model" || fail "the first model is gone"
[ -e "$OUTPUT-2/run/model" ] || fail "no second model"
grep -q "$OUTPUT holds an earlier model, which stays: this one goes to $OUTPUT-2" second || fail "$(cat second)"
scripts/quickstart.sh text.txt > third 2>&1
[ -e "$OUTPUT-3/run/model" ] || fail "no third model"
echo "the scripts keep their word"
