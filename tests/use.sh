#!/usr/bin/env bash
# eval perplexity, eval baselines, chat, data show: on a tiny model trained here. Arguments: the program, the source directory.
set -euo pipefail
stoa=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "FAILED: $*" >&2; exit 1; }
# value FILE KEY: a number of a JSON line.
value() { sed -E "s/.*\"$2\":(-?[0-9.eE+-]+|null).*/\1/" "$1"; }
near() { awk -v a="$1" -v b="$2" -v t="$3" 'BEGIN { d = a - b; if (d < 0) d = -d; exit !(d <= t) }' || fail "$4: $1 is not $2"; }
below() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a < b) }' || fail "$3: $1 is not below $2"; }

# Text that a small model can learn something of.
for i in $(seq 1 400); do
  echo "The keeper of house $((i % 7)) walks to the river in the morning, counts the boats, and walks home again."
done > train.txt
head -n 40 train.txt > held.txt
"$stoa" tokenizer train train.txt --vocab-size 400 --output tok 2> /dev/null
"$stoa" data prepare train.txt --tokenizer tok --output data > /dev/null 2>&1
run=("$source/configs/tiny.yaml" model.data=data model.tokenizer=tok trainer.max_steps=20 trainer.val_check_interval=0 'model.data.splits_string="1,0,0"')
"$stoa" train "${run[@]}" --output run > train.log 2>&1 || { cat train.log; fail "train"; }

# --- eval perplexity
"$stoa" eval perplexity run --text held.txt --json --dtype fp32 > a.json 2> /dev/null
"$stoa" eval perplexity run --text held.txt --json --dtype fp32 --pass-tokens 300 > b.json 2> /dev/null
near "$(value a.json loss)" "$(value b.json loss)" 1e-5 "the packing into passes changes the loss"
near "$(value a.json bytes)" "$(wc -c < held.txt)" 0 "bytes"
near "$(value a.json words)" "$(wc -w < held.txt)" 0 "words"
near "$(value a.json bits_per_byte)" "$(awk -v l="$(value a.json loss)" -v t="$(value a.json tokens)" -v b="$(value a.json bytes)" 'BEGIN { print l * t / b / log(2) }')" 1e-4 "bits per byte"
below "$(value a.json loss)" 5.9 "20 steps taught nothing"
# One window, no overlap: the same numbers as score gives.
head -n 2 held.txt > two.txt
"$stoa" eval perplexity run --text two.txt --text-split line --json --dtype fp32 > c.json 2> /dev/null
{ "$stoa" tokenizer encode --tokenizer tok two.txt; } | sed "s/^/0 /" | "$stoa" score run --ids --dtype fp32 > score.json 2> /dev/null
sum=$(sed -E 's/.*"logprobs":\[null,([^]]*)\].*/\1/' score.json | tr ',' '\n' | awk '{ s -= $1; n++ } END { printf "%.6f", s / n }')
id0=$("$stoa" tokenizer decode --tokenizer tok <<< 0)
[ "$id0" = "<|endoftext|>" ] || fail "token 0 is '$id0'"
near "$(value c.json loss)" "$sum" 1e-3 "perplexity and score"
"$stoa" eval perplexity run --text held.txt --stride 1000000 > /dev/null 2> err && fail "an impossible stride was accepted"
grep -q "stride must be between" err || fail "$(cat err)"
"$stoa" eval perplexity run --text missing.txt > /dev/null 2> err && fail "a missing file was accepted"
grep -q "missing.txt" err || fail "$(cat err)"

# --- eval baselines
"$stoa" eval baselines --train train.txt --text held.txt --json > base.json 2> /dev/null
below "$(value base.json ngram_bits_per_byte)" 1.0 "5-gram"
below "$(value base.json xz_bits_per_byte)" 1.0 "xz"
PATH=/nowhere "$stoa" eval baselines --train train.txt --text held.txt > base.txt  # of itself, without the program xz
grep -q "^xz -9 .* bits per byte" base.txt || fail "no figure of xz: $(cat base.txt)"

# --- data show: what the first step sees is in the corpus
"$stoa" data show "${run[@]}" --step 2 --json > show.json 2> /dev/null
near "$(value show.json step)" 2 0 "data show"
"$stoa" data show "${run[@]}" --step 2 2> /dev/null > show.txt
grep -q "keeper of house" show.txt || fail "data show has no text: $(head -5 show.txt)"
"$stoa" data show "${run[@]}" --step 21 > /dev/null 2> err && fail "a step beyond the run was accepted"
grep -q "steps 1 to 20" err || fail "$(cat err)"

# --- chat: a base model continues text; the cache keeps whole blocks of what was said
printf 'The keeper\nwalks\n/reset\nThe keeper\n/exit\nnever\n' | "$stoa" chat run --greedy --max-tokens 40 --json > chat.json 2> err
grep -q "no chat template" err || fail "a base model says nothing: $(cat err)"
[ "$(wc -l < chat.json)" = 3 ] || fail "$(cat chat.json)"
[ "$(sed -n 1p chat.json | sed 's/,"tokens_per_second.*//')" = "$(sed -n 3p chat.json | sed 's/,"tokens_per_second.*//')" ] || fail "/reset leaves something behind"
sed -n 2p chat.json > second.json
below 0 "$(value second.json reused_tokens)" "the second turn reads everything anew"
# A conversation with a template: as the whole text at once, token for token.
cat > template.jinja <<'JINJA'
{%- for m in messages %}{{ m.role }}: {{ m.content | trim }}
{% endfor %}{% if add_generation_prompt %}assistant:{% endif %}
JINJA
printf 'The keeper\nHe walks\n' | "$stoa" chat run --greedy --max-tokens 8 --json --dtype fp32 --chat-template template.jinja > chat.json 2> /dev/null
first=$(sed -n 1p chat.json | sed -E 's/^\{"text":"(.*)","ids".*/\1/')
trimmed=$(printf '%b' "$first" | awk '{ gsub(/^[ \t]+|[ \t]+$/, ""); print }')
prompt=$(printf 'user: The keeper\nassistant: %s\nuser: He walks\nassistant:' "$trimmed")
"$stoa" generate run --greedy --max-tokens 8 --dtype fp32 --json --prompt "$prompt" > whole.json 2> /dev/null
ids_of() { sed -E 's/.*"ids":\[([0-9,]*)\].*/\1/'; }
[ "$(sed -n 2p chat.json | ids_of)" = "$(sed -E 's/"prompt_ids":\[[0-9,]*\]//' whole.json | ids_of)" ] || fail "the second answer differs from one read at once:
$(sed -n 2p chat.json)
$(cat whole.json)"
# A small context forgets the oldest turns, and says so.
for i in $(seq 1 12); do echo "The keeper of house $i walks"; done | "$stoa" chat run --greedy --max-tokens 8 --context 60 --chat-template template.jinja > out.txt 2> err
grep -q -E "turn was forgotten|turns were forgotten" err || fail "forgetting is not said: $(cat err)"
[ "$(wc -l < out.txt)" -ge 12 ] || fail "$(cat out.txt)"
# A template that refuses is an error with its words.
echo "{{ raise_exception('only on Sundays') }}" > refuse.jinja
echo hello | "$stoa" chat run --chat-template refuse.jinja > /dev/null 2> err && fail "a refusal was accepted"
grep -q "only on Sundays" err || fail "$(cat err)"
# Ctrl-C while it waits: a hint, the conversation goes on; twice: the end.
mkfifo in
"$stoa" chat run --greedy --max-tokens 4 < in > out.txt 2> err &
pid=$!
exec 9> in
echo "The keeper" >&9
for _ in $(seq 6000); do [ -s out.txt ] && break; sleep 0.1; done
# One that comes before it waits for input is not counted.
for _ in $(seq 200); do
  kill -INT $pid
  for _ in $(seq 30); do grep -q "Ctrl-C again" err && break 2; sleep 0.1; done
done
grep -q "Ctrl-C again" err || fail "Ctrl-C gives no hint: $(cat err)"
sleep 1.5
echo "The keeper" >&9
echo "/exit" >&9
wait $pid || fail "chat did not outlive one Ctrl-C: $(cat err)"
[ "$(grep -c . out.txt)" -ge 2 ] || fail "no answer after Ctrl-C"
"$stoa" chat run < in > /dev/null 2> err &
pid=$!
for _ in $(seq 6000); do grep -q "no chat template" err && break; sleep 0.1; done
# One that comes before it waits for input is not counted, so a busy machine may need a third.
for _ in $(seq 2000); do kill -INT $pid 2> /dev/null || break; sleep 0.3; done
status=0
wait $pid || status=$?
[ $status = 130 ] || fail "two Ctrl-C: status $status"
exec 9>&-
echo "use: all passed"
