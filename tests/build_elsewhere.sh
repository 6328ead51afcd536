#!/usr/bin/env bash
# A program that is built outside the sources finds the presets.   build_elsewhere.sh SOURCES PROGRAM
set -euo pipefail
sources=$1
program=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake -G Ninja -S "$sources" -B "$work/build" -D STOA_TESTS=OFF > "$work/log" 2>&1 || { cat "$work/log" >&2; exit 1; }
mkdir -p "$work/build/src"
cp "$program" "$work/build/src/stoa"  # where the build would have put it
cd "$work"
build/src/stoa config check tiny
# Where there are none, that is said.
cp "$program" "$work/stoa"
if ./stoa config check tiny 2> err; then echo "FAILED: presets out of nowhere" >&2; exit 1; fi
grep -q "no presets: the program searches for configs or share/stoa/configs" err || { cat err >&2; exit 1; }
if ./stoa plan size --cluster laptop-cpu --gpus 8 --days 1 --tokens 1B 2> err; then exit 1; fi
grep -q "configs/clusters is part of the program and is missing: .*$work/stoa" err || { cat err >&2; exit 1; }
echo "presets are found, or missed aloud"
