#!/usr/bin/env bash
# From text to a talking GPT: installs, builds, takes prose, trains a tokenizer and a model for about five minutes on two
# cores, and prints what it says.
#
#   scripts/quickstart.sh                   the King James Bible of Debian's package bible-kjv
#   scripts/quickstart.sh my.txt other.txt  your own text: documents separated by blank lines
#
# MINUTES=2 trains for two minutes; OUTPUT=DIR puts everything there (default runs/quickstart; where an earlier model lies,
# the next one gets a folder beside it); STOA=PROGRAM takes a program that is built already.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
minutes=${MINUTES:-5}
output=${OUTPUT:-$root/runs/quickstart}
say() { printf '\n== %s\n' "$*"; }

# What was trained before stays.
earlier=$output
for ((i = 2; ; ++i)); do
  [ -e "$output/run" ] || break
  output=$earlier-$i
done
[ "$output" = "$earlier" ] || say "$earlier holds an earlier model, which stays: this one goes to $output"

stoa=${STOA:-}
if [ -z "$stoa" ]; then
  say "Installing what is missing and building (a few minutes, the first time)"
  if [ $# -gt 0 ]; then "$root/scripts/install_dependencies.sh"; else "$root/scripts/install_dependencies.sh" bible-kjv; fi
  stoa=$root/$("$root/scripts/build.sh" --program)
fi

say "Text"
work=$output/text
mkdir -p "$work"
if [ $# -gt 0 ]; then
  "$stoa" data text "$@" > "$work/all.txt"  # as UTF-8 with Unix line endings, whatever it is
else
  # One verse a line, "Ge1:1 In the beginning …": the reference goes, a chapter becomes a document.
  bible -f 'gen1:1-rev22:21' |
    awk '{ split($1, place, ":"); if (NR > 1 && place[1] != chapter) print ""; chapter = place[1]; $1 = ""; sub(/^ /, ""); print }' > "$work/all.txt"
fi
# Every 20th document is held out: the model never sees it.
awk -v RS= -v ORS='\n\n' -v train="$work/train.txt" -v held="$work/held-out.txt" \
  'BEGIN { printf "" > train; printf "" > held } { print > (NR % 20 == 10 ? held : train) }' "$work/all.txt"
if [ ! -s "$work/held-out.txt" ]; then
  echo "The text has fewer than 10 documents (blocks separated by blank lines): give more text, or add blank lines" >&2
  exit 1
fi
for part in train held-out; do wc -c "$work/$part.txt"; done

say "Tokenizer and token file"
"$stoa" tokenizer train "$work/train.txt" --vocab-size 4096 --output "$output/tokenizer"
for part in train held-out; do
  "$stoa" data prepare "$work/$part.txt" --tokenizer "$output/tokenizer" --output "$work/$part" --text-split paragraph --json > "$work/$part.json"
done
number_of() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" "$2" | tail -1; }
echo "$(number_of tokens "$work/train.json") tokens to learn from, $(number_of tokens "$work/held-out.json") held out"

say "Training for about $minutes minutes"
# Validation reads the held-out text, all of it: 2048 tokens are a batch.
common=("model.tokenizer=$output/tokenizer" "model.data={data_prefix: {train: ['$work/train'], validation: ['$work/held-out']}}")
batches=$(( $(number_of tokens "$work/held-out.json") / 2048 ))
rate=$("$stoa" bench train "$root/configs/quickstart.yaml" "${common[0]}" model.vocab_size=4096 --steps 5 --warmup 2 --json |
  sed -n 's/.*"tokens_per_second":\([0-9.]*\).*/\1/p')
steps=$(awk -v rate="$rate" -v minutes="$minutes" 'BEGIN { n = int(rate * minutes * 60 * 0.93 / 2048); print (n < 100 ? 100 : n) }')
prompt=$(awk 'NF > 3 { print $1, $2, $3; exit }' "$work/held-out.txt")
"$stoa" train "$root/configs/quickstart.yaml" "${common[@]}" "trainer.max_steps=$steps" \
  "trainer.val_check_interval=$(( (steps + 4) / 5 ))" "trainer.limit_val_batches=$(( batches > 0 ? batches : 1 ))" "trainer.sample_prompts=[\"$prompt\"]" trainer.sample_max_tokens=60 --output "$output/run"

say "What it says (prompt: $prompt)"
for seed in 1 2 3; do
  "$stoa" generate "$output/run" --prompt "$prompt" --echo --max-tokens 80 --temperature 0.8 --top-p 0.95 --seed "$seed" 2>/dev/null
  echo
done

say "Bits per byte on held-out text (lower is better)"
printf '%-27s%.3f  bits per byte (as in the report)\n' "the model" "$(number_of val_bits_per_byte "$output/run/metrics.jsonl")"
"$stoa" eval baselines --train "$work/train.txt" --text "$work/held-out.txt"

say "Done"
echo "Report:       $output/run/report.html"
echo "Talk to it:   $stoa chat $output/run"
echo "Run again:    $stoa train $output/run/config.yaml --output $output/another"
[ -n "${STOA:-}" ] || echo "Call it stoa: $root/scripts/build.sh --install ~/.local"
