#!/usr/bin/env bash
# Kills runs of the data factory with SIGKILL at random moments, 50 times for each of 1, 2 and 7 workers, continues them, and holds the sha256 of every
# file of the output against an undisturbed run. Each number of workers has a locale and a time zone of its own (a German locale with UTF-8, where `localedef` can
# make one). Does the same without kills for `data blend`, `collect` and `train-lm`.  tests/slow/data_kills.sh STOA INPUT [kills] [seed]     (minutes)
set -euo pipefail
stoa=$(realpath "$1") input=$(realpath "$2") kills=${3:-50}
RANDOM=${4:-1}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
cd "$folder"
cat > pipeline.yaml <<'END'
shard_bytes: 500_000
stages: [gopher_repetition, {gopher_quality: {max_non_alpha_words_ratio: 0.5}}]
deduplicate: [exact, minhash]
cut: [{lines: {min_characters: 30}}, bloom, substrings]
END
hashes() { (cd "$1" && find . -type f | LC_ALL=C sort | xargs sha256sum); }
start=$(date +%s%N)
"$stoa" data run pipeline.yaml --input "$input" --output whole --workers 2 > /dev/null 2>&1
milliseconds=$((($(date +%s%N) - start) / 1000000))
hashes whole > expected
echo "undisturbed: $milliseconds ms, $(wc -l < expected) files"
german=C.UTF-8
mkdir locales
if localedef -i de_DE -f UTF-8 "$folder/locales/de_DE.UTF-8" 2> /dev/null; then german=de_DE.UTF-8; fi
declare -A locale=([1]=C [2]=$german [7]=C.UTF-8) zone=([1]=UTC [2]=Asia/Kathmandu [7]=America/St_Johns)
in_locale() { LOCPATH=$folder/locales LC_ALL=${locale[$1]} TZ=${zone[$1]} "${@:2}"; }
for workers in 1 2 7; do
  done=0 rounds=0
  while ((done < kills)); do
    rm -rf killed
    rounds=$((rounds + 1))
    # Until a run comes to its end before it is killed: then the next output begins.
    for (( ; done < kills; )); do
      pause=$((RANDOM * 2 % (milliseconds + 1)))
      in_locale "$workers" exec "$stoa" data run pipeline.yaml --input "$input" --output killed --workers "$workers" > /dev/null 2>&1 &
      pid=$!
      sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
      if ! kill -KILL "$pid" 2> /dev/null; then
        wait "$pid"
        break
      fi
      wait "$pid" 2> /dev/null || true
      done=$((done + 1))
    done
    in_locale "$workers" "$stoa" data run pipeline.yaml --input "$input" --output killed --workers "$workers" > /dev/null 2>&1
    hashes killed | diff expected - || { echo "workers $workers: other bytes after a kill"; exit 1; }
  done
  echo "workers $workers, ${locale[$workers]}, ${zone[$workers]}: $done kills, $rounds outputs, the same sha256"
done

cp -r whole/kept corpus
cat corpus/*.jsonl > corpus.jsonl
"$stoa" tokenizer train corpus.jsonl --vocab-size 500 --output tokenizer > /dev/null 2>&1
printf 'train: 0.9\nvalidation: 0.1\nsources: [{name: corpus, path: corpus}]\n' > recipe.yaml
for workers in 1 2 7; do
  mkdir "made$workers"
  in_locale "$workers" "$stoa" data blend recipe.yaml --tokenizer tokenizer --output "made$workers/blend" --workers "$workers" > /dev/null 2>&1
  in_locale "$workers" "$stoa" data collect corpus --output "made$workers/collected" --workers "$workers" > /dev/null 2>&1
  in_locale "$workers" "$stoa" data train-lm corpus.jsonl --order 3 --output "made$workers/model.arpa" > /dev/null 2>&1
  (cd "made$workers" && find . -type f | LC_ALL=C sort | xargs sha256sum) > "made$workers.hashes"
  diff made1.hashes "made$workers.hashes" || { echo "workers $workers: other bytes"; exit 1; }
done
echo "blend, collect and train-lm: $(wc -l < made1.hashes) files, the same sha256 with 1, 2 and 7 workers and in each locale"
