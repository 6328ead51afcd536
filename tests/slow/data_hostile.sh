#!/usr/bin/env bash
# What a data run must live through: lines of a gigabyte and more, pages nested a million deep, a second run in the same directory, a process of a shared run that
# hangs, and a disk that is full.  tests/slow/data_hostile.sh STOA [folder]     (minutes; 5 GB of disk; the last part needs to mount: root, or user namespaces)
set -euo pipefail
stoa=$(realpath "$1")
work=$(mktemp -d -p "${2:-/tmp}")
trap 'umount "$work/disk" 2>/dev/null || true; kill -CONT $(jobs -p) 2>/dev/null || true; kill $(jobs -p) 2>/dev/null || true; rm -rf "$work"' EXIT
cd "$work"
failures=0
complain() { echo "FAILED: $*"; failures=$((failures + 1)); }
documents() { python3 -c "import json; print(json.load(open('$1/manifest.json'))['flow']['$2']['documents'])"; }
printf 'allow_empty: true\nstages: [{gopher_quality: {min_doc_words: 2, max_doc_words: 0, min_stop_words: 0, max_avg_word_length: 0}}]\n' > pipeline.yaml
printf 'deduplicate: [exact]\n' > copies.yaml

echo "lines of 1.0 and 1.2 GB between two others"
python3 - <<'END'
piece = "the quick brown fox of the harbour and its boats " * 20000
for name, size in (("long", 1000), ("longer", 1200)):
    with open(f"{name}.jsonl", "w") as out, open(f"{name}.txt", "w") as text:
        out.write('{"text":"the first document"}\n{"text":"')
        for _ in range(size):
            out.write(piece)
            text.write(piece)
        out.write('"}\n{"text":"the last document"}\n')
END
for input in long.jsonl longer.jsonl long.txt longer.txt; do
  /usr/bin/time -f "%M" -o memory "$stoa" data run pipeline.yaml --input $input --output "out-$input" --workers 1 > said 2>&1 || complain "$input: $(tail -1 said)"
  megabytes=$(($(tail -1 memory) / 1000))
  printf '  %-13s kept %s, quarantine %s, largest resident set %d MB\n' $input "$(documents "out-$input" kept)" "$(documents "out-$input" quarantined)" $megabytes
  [ $megabytes -lt 400 ] || complain "$input: more than 400 MB of memory"
  [ "$(documents "out-$input" quarantined)" = 1 ] || complain "$input: the long document is not in quarantine"
done
for input in long.jsonl longer.jsonl; do
  [ "$(documents "out-$input" kept)" = 2 ] || complain "$input: not both of the documents beside the long one"
done
rm -rf long* out-*

echo "pages nested a million deep"
python3 - <<'END'
n = 10**6
for name, tag, close in (("div", "<div>", "</div>"), ("b", "<b>", ""), ("table", "<table><tr><td>", ""), ("list", "<ul><li>", ""), ("p", "<p><a href=x>", "")):
    open(f"{name}.html", "w").write("<title>Deep</title>" + tag * n + "what stands at the bottom of it all" + close * n)
END
for page in div b table list p; do
  /usr/bin/time -f "%e %M" -o spent "$stoa" data run pipeline.yaml --input $page.html --output "out-$page" --workers 1 > said 2>&1 || complain "$page: $(tail -1 said)"
  read -r seconds kilobytes < spent
  echo "  <$page>: $seconds s, $((kilobytes / 1000)) MB, kept $(documents "out-$page" kept)"
  [ "${seconds%.*}" -lt 60 ] || complain "$page: $seconds s"
done
rm -rf ./*.html out-*

echo "two runs in one directory"
mkdir in
python3 - <<'END'
import json, random
rng = random.Random(1)
words = [f"word{i}" for i in range(3000)]
for part in range(8):
    with open(f"in/{part}.jsonl", "w") as out:
        for i in range(12000):
            out.write(json.dumps({"id": f"{part}-{i}", "text": "the " + " ".join(rng.choices(words, k=150))}) + "\n")
END
run() { "$stoa" data run "$1" --input in --output "$2" --workers 1 "${@:3}"; }
run copies.yaml one > /dev/null 2>&1 &
for _ in $(seq 100); do [ -d one/work/journal ] && break; sleep 0.05; done
if run copies.yaml one > said 2>&1; then complain "the second run was let in"; else grep -m1 '^ERROR' said | sed 's/^/  /'; fi
wait
[ -f one/manifest.json ] || complain "the first run did not end well"

echo "a process of a shared run that hangs"
run copies.yaml shared --shared > /dev/null 2>&1 &
stopped=$!
for _ in $(seq 200); do [ -n "$(find shared -name '*.lease' 2>/dev/null)" ] && break; sleep 0.02; done
kill -STOP $stopped
begin=$(date +%s)
run copies.yaml shared --shared > said 2>&1 || complain "the other process failed: $(tail -1 said)"
echo "  the other process did it all in $(($(date +%s) - begin)) s"
kill -CONT $stopped
wait $stopped || complain "the process that hung does not end well"
cmp one/kept/00000.jsonl shared/kept/00000.jsonl || complain "not the bytes of a run alone"

echo "a full disk"
if [ "$(id -u)" = 0 ] && mkdir disk && mount -t tmpfs -o size=1m none disk 2>/dev/null; then
  umount disk
  for pipeline in pipeline.yaml copies.yaml; do
    for mb in 1 20 60 90; do
      mount -t tmpfs -o size=${mb}m none disk
      status=0
      run $pipeline disk/out > said 2>&1 || status=$?
      [ $status = 1 ] || complain "$pipeline on $mb MB: status $status"
      [ "$(grep -c '^ERROR' said)" = 1 ] && grep -q 'No space left\|disk full' said || complain "$pipeline on $mb MB: $(tail -2 said)"
      [ ! -e disk/out/manifest.json ] || complain "$pipeline on $mb MB: it says that it is complete"
      mount -o remount,size=900m disk
      run $pipeline disk/out > said 2>&1 || complain "$pipeline after $mb MB: it does not go on: $(tail -1 said)"
      if [ $pipeline = copies.yaml ]; then cmp one/kept/00000.jsonl disk/out/kept/00000.jsonl || complain "other bytes after $mb MB"; fi
      umount disk
    done
  done
  echo "  8 runs ended with one error, and went on to the same bytes once there was room"
else
  echo "  skipped: cannot mount"
fi
[ $failures = 0 ] && echo "passed"
exit $((failures > 0))
