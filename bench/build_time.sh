#!/usr/bin/env bash
# Time of a release build from a clean checkout, without ccache: configure, the program, then its tests. bench/build_time.sh [RESULT.json]
set -euo pipefail
cd "$(dirname "$0")/.."
export CCACHE_DISABLE=1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
git archive HEAD | tar -x -C "$folder"
seconds() { local begin=$EPOCHREALTIME; "$@" >"$folder/log" 2>&1 || { tail -20 "$folder/log" >&2; exit 1; }; echo "$EPOCHREALTIME - $begin" | tr , . | awk '{print $1 - $3}'; }
configure=$(cd "$folder" && seconds cmake --preset release -D STOA_CCACHE=OFF)
program=$(cd "$folder" && seconds cmake --build --preset release --target stoa -j "$(nproc)")
tests=$(cd "$folder" && seconds cmake --build --preset release -j "$(nproc)")
python3 - "$configure" "$program" "$tests" "${1:-}" <<'PY'
import sys
sys.path.insert(0, "bench")
import common
configure, program, tests = map(float, sys.argv[1:4])
facts = common.facts() | {"command": "bench/build_time.sh"}
common.save(facts | {"benchmark": "build", "configure_seconds": configure, "program_seconds": program, "tests_seconds": tests,
                     "release_build_seconds": configure + program, "with_tests_seconds": configure + program + tests, "bar_seconds": 300},
            sys.argv[4])
PY
