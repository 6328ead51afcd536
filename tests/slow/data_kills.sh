#!/usr/bin/env bash
# Kills runs of the data factory with SIGKILL at random moments, 50 times for each of 1, 2 and 7 workers, continues them, and holds the sha256 of every
# file of the output against an undisturbed run.  tests/slow/data_kills.sh STOA INPUT [kills] [seed]     (minutes)
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
for workers in 1 2 7; do
  done=0 rounds=0
  while ((done < kills)); do
    rm -rf killed
    rounds=$((rounds + 1))
    # Until a run comes to its end before it is killed: then the next output begins.
    for (( ; done < kills; )); do
      pause=$((RANDOM * 2 % (milliseconds + 1)))
      "$stoa" data run pipeline.yaml --input "$input" --output killed --workers "$workers" > /dev/null 2>&1 &
      pid=$!
      sleep "$(printf '%d.%03d' $((pause / 1000)) $((pause % 1000)))"
      if ! kill -KILL "$pid" 2> /dev/null; then
        wait "$pid"
        break
      fi
      wait "$pid" 2> /dev/null || true
      done=$((done + 1))
    done
    "$stoa" data run pipeline.yaml --input "$input" --output killed --workers "$workers" > /dev/null 2>&1
    hashes killed | diff expected - || { echo "workers $workers: other bytes after a kill"; exit 1; }
  done
  echo "workers $workers: $done kills, $rounds outputs, the same sha256"
done
