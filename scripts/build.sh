#!/usr/bin/env bash
# Builds one preset (release, debug, asan, tsan, cuda) with one line of progress; all that the build says lies in
# build/PRESET/build.log, and is shown when it fails.
#
#   scripts/build.sh [PRESET] [CMake options]      the program and its tests
#   scripts/build.sh --program [PRESET] ...        the program alone
#   scripts/build.sh --install PREFIX [PRESET] ... the program alone, then PREFIX/bin/stoa with what it needs
set -euo pipefail
cd "$(dirname "$0")/.."
preset=release
prefix=
target=()
options=()
while [ $# -gt 0 ]; do
  case $1 in
    --program) target=(--target stoa) ;;
    --install)
      [ $# -ge 2 ] || { echo "--install takes a folder: scripts/build.sh --install ~/.local" >&2; exit 2; }
      prefix=$2
      target=(--target stoa)
      shift ;;
    -*) options+=("$1") ;;
    *) preset=$1 ;;
  esac
  shift
done
mkdir -p "build/$preset"
log=build/$preset/build.log
failed() {
  echo "The build failed; all of it: $log" >&2
  exit 1
}

cmake --preset "$preset" "${options[@]}" > "$log" 2>&1 || { tail -n 40 "$log" >&2; failed; }
# Steps become one line, rewritten where there is a terminal. Warnings and errors are shown as they come.
terminal=0
[ -t 2 ] && terminal=1
NINJA_STATUS='[%f/%t] ' cmake --build --preset "$preset" "${target[@]}" 2>&1 | tee -a "$log" | awk -v terminal="$terminal" -v preset="$preset" '
  /^\[[0-9]+\/[0-9]+\] / {
    split(substr($1, 2), step, /[\/\]]/)
    if (terminal) printf "\rBuilding %s: %d of %d ", preset, step[1], step[2]
    else if (!begun) printf "Building %s: %d steps\n", preset, step[2]
    begun = 1
    fflush()
    next
  }
  /^ninja: no work to do/ { next }
  { if (terminal && begun) { print ""; begun = 0 } print; fflush() }
  END { if (terminal && begun) print "" }' >&2 || failed
program=build/$preset/src/stoa
[ -n "$prefix" ] || { echo "$program"; exit 0; }

cmake --install "build/$preset" --prefix "$prefix" --component program >> "$log" 2>&1 || { tail -n 40 "$log" >&2; failed; }
echo "$prefix/bin/stoa"
case :$PATH: in
  *:"$prefix/bin":*) ;;
  *) echo "To call it as stoa: export PATH=\"$prefix/bin:\$PATH\" (in ~/.profile, to keep it)" >&2 ;;
esac
