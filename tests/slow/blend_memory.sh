#!/usr/bin/env bash
# The largest resident set of `stoa data blend --memory 0.256`, pages of files that it maps included, with corpora of two sizes: texts that are tokenised, shuffled as a whole and written as
# token files of two splits.  tests/slow/blend_memory.sh STOA [documents] [folder]     (default: 1,000,000 documents and four times as many; some 4 GB of disk, minutes)
set -euo pipefail
stoa=$(realpath "$1") documents=${2:-1000000}
folder=$(mktemp -d -p "${3:-/tmp}")
trap 'rm -r "$folder"' EXIT
cd "$folder"
mkdir in
write() {  # count, seed: documents of 8 to 40 words
  awk -v n="$1" -v seed="$2" 'BEGIN {
    srand(seed)
    for (w = 0; w < 4096; ++w) word[w] = sprintf("%c%c%c%c", 97 + w % 16, 97 + int(w / 16) % 16, 97 + int(w / 256), 97 + (w * 7) % 26)
    for (i = 0; i < n; ++i) {
      text = word[int(rand() * 4096)]
      for (k = 7 + int(rand() * 33); k > 0; --k) text = text " " word[int(rand() * 4096)]
      print "{\"text\":\"" text "\"}"
    }
  }'
}
write 20000 7 > sample.jsonl
"$stoa" tokenizer train sample.jsonl --vocab-size 2000 --output tokenizer > /dev/null 2>&1
printf 'train: 0.95\nvalidation: 0.05\nsources: [{name: words, path: in}]\n' > recipe.yaml
for size in "$documents" $((4 * documents)); do
  write "$size" 1 > in/words.jsonl
  rm -f mix*
  python3 - "$stoa" "$size" <<'END'
import os, pathlib, resource, subprocess, sys
subprocess.run([sys.argv[1], "data", "blend", "recipe.yaml", "--tokenizer", "tokenizer", "--output", "mix", "--memory", "0.256", "--workers", "2"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
megabytes = usage.ru_maxrss * 1024 / 1e6
print(f"{sys.argv[2]} documents, {os.path.getsize('in/words.jsonl') / 1e6:.0f} MB of text, {sum(p.stat().st_size for p in pathlib.Path('.').glob('mix*')) / 1e6:.0f} MB of token files; "
      f"largest resident set {megabytes:.0f} MB; {usage.ru_utime + usage.ru_stime:.0f} s of processors")
sys.exit(megabytes > 256)
END
done
