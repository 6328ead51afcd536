#!/usr/bin/env bash
# Fills a real disk: on tmpfs mounts of many sizes, each too small for what is written, `tokenizer train`, `data prepare` and
# `train` must end with one clear error and exit status 1, leave no partial file, and the checkpoints before must be good: the
# run goes on from them once there is room, to the same numbers.   tests/slow/disk_full.sh [build folder]     (a minute or two)
#
# Needs to mount: root, or user namespaces. Where it cannot it says so and exits with 77.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
if [ "${STOA_DISK_INSIDE:-}" != 1 ]; then
  export STOA_DISK_INSIDE=1
  if unshare --mount true 2>/dev/null; then exec unshare --mount "$0" "$@"; fi
  if unshare --user --map-root-user --mount true 2>/dev/null; then exec unshare --user --map-root-user --mount "$0" "$@"; fi
  echo "skipped: this user may not mount (neither root nor user namespaces)"
  exit 77
fi
stoa=$(realpath "$build/src/stoa")
work=$(mktemp -d)
disk=$work/disk
mkdir "$disk"
trap 'umount "$disk" 2>/dev/null || true; rm -rf "$work"' EXIT
mount -t tmpfs -o size=1m none "$disk" 2>/dev/null || { echo "skipped: tmpfs cannot be mounted here"; exit 77; }
umount "$disk"
failures=0
complain() { echo "FAILED: $*"; failures=$((failures + 1)); }

# on SIZE_KB COMMAND…: a fresh disk of that size; the command's exit status in $status, its messages in $work/err.
fresh() { umount "$disk" 2>/dev/null || true; mount -t tmpfs -o "size=${1}k" none "$disk"; }
call() { status=0; "$stoa" "$@" > "$work/out" 2> "$work/err" || status=$?; }
# A refusal: exit 1, one error that says why, nothing unfinished.
check_refused() {
  [ "$status" -eq 1 ] || complain "$1: exit status $status, expected 1: $(tail -3 "$work/err")"
  [ "$(grep -c '^ERROR ' "$work/err")" -eq 1 ] || complain "$1: not one error: $(tail -3 "$work/err")"
  grep -qE 'No space left on device|[0-9] .?B are needed' "$work/err" || complain "$1: the error does not say that the disk is full: $(grep '^ERROR' "$work/err")"
  local left
  left=$(find "$disk" -name '*.tmp*')
  [ -z "$left" ] || complain "$1: left behind: $left"
}

echo "text"
awk 'BEGIN { srand(7); for (i = 0; i < 6000; ++i) { line = ""; for (j = 0; j < 12; ++j) { word = ""; n = 2 + int(5 * rand());
     for (k = 0; k < n; ++k) word = word substr("aeiourstnlmdkpg", 1 + int(15 * rand()), 1); line = line " " word } print line "." } }' > "$work/text.txt"
cd "$work"
call tokenizer train text.txt --vocab-size 2048 --output tok; [ "$status" -eq 0 ] || { cat err; exit 1; }
call data prepare text.txt --tokenizer tok --output data; [ "$status" -eq 0 ] || { cat err; exit 1; }
cp -r tok old-tok

echo "tokenizer train"
whole=0 refused=0
for kb in 4 16 40 64 96 128 192 256 512 1024; do
  fresh "$kb"
  call tokenizer train text.txt --vocab-size 2048 --output "$disk/tok"
  if [ "$status" -eq 0 ]; then
    whole=$((whole + 1)); diff -r tok "$disk/tok" > /dev/null || complain "tokenizer, $kb KB: not the whole tokenizer"
  else
    refused=$((refused + 1)); check_refused "tokenizer, $kb KB"
    [ -z "$(find "$disk" -type f)" ] || complain "tokenizer, $kb KB: files in place: $(find "$disk" -type f)"
  fi
done
echo "  refused $refused, whole $whole"
[ "$refused" -gt 2 ] && [ "$whole" -gt 0 ] || complain "tokenizer: the sizes do not meet the limit"

echo "data prepare"
whole=0 refused=0
total=$(( ($(stat -c %s data.bin) + $(stat -c %s data.idx)) / 1024 ))
for kb in 4 64 $((total / 4)) $((total / 2)) $((total * 3 / 4)) $((total * 9 / 10)) $((total - 8)) $((total + 64)) $((total + 1024)); do
  fresh "$kb"
  call data prepare text.txt --tokenizer tok --output "$disk/data"
  if [ "$status" -eq 0 ]; then
    whole=$((whole + 1)); for end in bin idx; do cmp data.$end "$disk/data.$end" || complain "data, $kb KB: $end differs"; done
  else
    refused=$((refused + 1)); check_refused "data, $kb KB"
    [ -z "$(find "$disk" -type f)" ] || complain "data, $kb KB: files in place: $(find "$disk" -type f)"
  fi
done
echo "  refused $refused, whole $whole"
[ "$refused" -gt 4 ] && [ "$whole" -gt 0 ] || complain "data: the sizes do not meet the limit"

train=(train tiny model.data=data model.tokenizer=tok "model.data.index_mapping_dir=$work/index" model.num_layers=2 model.hidden_size=32
       model.num_attention_heads=2 model.encoder_seq_length=32 model.micro_batch_size=2 model.global_batch_size=4
       model.optim.sched.warmup_steps=2 trainer.precision=fp32 trainer.log_every_n_steps=1 trainer.val_check_interval=0 trainer.num_threads=2)
echo "checkpoints"
saving=(trainer.max_steps=24 exp_manager.checkpoint_callback_params.every_n_train_steps=6 exp_manager.checkpoint_callback_params.save_top_k=-1)
call "${train[@]}" "${saving[@]}" --output straight; [ "$status" -eq 0 ] || { cat err; exit 1; }
total=$(du -sk straight | cut -f1)
whole=0 refused=0 resumed=0
for part in 1 3 8 12 18 25 33 41 50 60 70 80 90 97 130; do
  kb=$((total * part / 100))
  fresh "$kb"
  call "${train[@]}" "${saving[@]}" --output "$disk/run"
  if [ "$status" -eq 0 ]; then whole=$((whole + 1)); continue; fi
  refused=$((refused + 1)); check_refused "train, $kb KB"
  if [ ! -e "$disk/run" ]; then continue; fi   # it failed before its first step
  if [ -f "$disk/run/metrics.jsonl" ]; then
    [ -z "$(tail -c 1 "$disk/run/metrics.jsonl" | tr -d '\n')" ] || complain "train, $kb KB: a torn line in metrics.jsonl"
  fi
  saved=$(find "$disk/run/checkpoints" -maxdepth 1 -name 'step-*' 2>/dev/null | wc -l)
  if [ "$saved" -gt 0 ]; then
    resumed=$((resumed + 1))
    for checkpoint in "$disk"/run/checkpoints/step-*; do
      call checkpoint verify "$checkpoint"; [ "$status" -eq 0 ] || complain "train, $kb KB: $(cat err)"
    done
  fi
  mount -o "remount,size=$((4 * total))k" "$disk"
  call "${train[@]}" "${saving[@]}" --output "$disk/run"; [ "$status" -eq 0 ] || complain "train, $kb KB, with room again: $(tail -2 err)"
  if [ "$saved" -gt 0 ] && ! grep -q RESUMED err; then complain "train, $kb KB: it did not resume"; fi
  call compare straight "$disk/run"; [ "$status" -eq 0 ] || complain "train, $kb KB: the resumed run differs: $(tail -3 out)"
done
echo "  refused $refused (resumed from a checkpoint $resumed), whole $whole"
[ "$resumed" -gt 3 ] && [ "$whole" -gt 0 ] || complain "train: the sizes do not meet the limit"

echo "metrics"
refused=0
for kb in 64 100 160; do
  fresh "$kb"
  call "${train[@]}" trainer.max_steps=3000 exp_manager.create_checkpoint_callback=false --output "$disk/run"
  [ "$status" -ne 0 ] && refused=$((refused + 1)) && check_refused "metrics, $kb KB"
  if [ -f "$disk/run/metrics.jsonl" ]; then
    [ -z "$(tail -c 1 "$disk/run/metrics.jsonl" | tr -d '\n')" ] || complain "metrics, $kb KB: a torn line"
  fi
done
echo "  refused $refused"
[ "$refused" -gt 0 ] || complain "metrics: the sizes do not meet the limit"

echo "an old tokenizer stays"
fresh 400
cp -r old-tok "$disk/tok"
dd if=/dev/zero of="$disk/full" bs=4k 2>/dev/null || true
call tokenizer train text.txt --vocab-size 1024 --output "$disk/tok"
check_refused "tokenizer over an old one"
diff -r old-tok "$disk/tok" > /dev/null || complain "the old tokenizer was changed"

if [ "$failures" -gt 0 ]; then echo "$failures failures"; exit 1; fi
echo "disk full: all held"
