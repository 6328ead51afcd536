#!/usr/bin/env bash
# Near-duplicates among many short documents within 256 MB: the largest resident set of `stoa data run --memory 0.256`, pages of files that it maps included, and the
# copies that it finds against those that were made.  tests/slow/dedup_memory.sh STOA [documents] [folder]     (10,000,000 documents: some 8 GB of disk, minutes)
set -euo pipefail
stoa=$(realpath "$1") documents=${2:-10000000}
folder=$(mktemp -d -p "${3:-/tmp}")
trap 'rm -r "$folder"' EXIT
cd "$folder"
printf 'deduplicate: [minhash]\n' > pipeline.yaml
# Twelve of 4,096 words; every tenth document is the one five before it again.
awk -v n="$documents" 'BEGIN {
  srand(1)
  for (w = 0; w < 4096; ++w) word[w] = sprintf("%c%c%c%c", 97 + w % 16, 97 + int(w / 16) % 16, 97 + int(w / 256), 97 + (w * 7) % 26)
  for (i = 0; i < n; ++i) {
    text = word[int(rand() * 4096)]
    for (k = 1; k < 12; ++k) text = text " " word[int(rand() * 4096)]
    if (i % 10 == 9) text = before
    if (i % 10 == 4) before = text
    print "{\"id\":" i ",\"text\":\"" text "\"}"
  }
}' > in.jsonl
python3 - "$stoa" "$documents" <<'END'
import json, resource, subprocess, sys, time
begin = time.time()
out = subprocess.run([sys.argv[1], "data", "run", "pipeline.yaml", "--input", "in.jsonl", "--output", "out", "--memory", "0.256", "--workers", "2", "--json"],
                     check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
flow = json.loads(out)["flow"]
removed, made = flow["dropped"]["minhash/duplicate"]["documents"], int(sys.argv[2]) // 10
megabytes = usage.ru_maxrss * 1024 / 1e6
print(f"{sys.argv[2]} documents, {made} copies made, {removed} found; largest resident set {megabytes:.0f} MB; {time.time() - begin:.0f} s, "
      f"{usage.ru_utime + usage.ru_stime:.0f} s of processors")
sys.exit(not (made <= removed <= made + made // 1000 + 10 and megabytes <= 256))
END
