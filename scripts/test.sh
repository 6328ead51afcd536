#!/usr/bin/env bash
# Installs what is missing, builds, and passes the tests.  scripts/test.sh [preset]   (release, debug, asan, tsan)
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}
scripts/install_dependencies.sh
scripts/build.sh "$preset" > /dev/null
python3 scripts/check_includes.py
python3 scripts/check_unique_names.py
python3 scripts/check_links.py
python3 scripts/check_words.py

# The tests write and sync thousands of small files, and wait for the disk most of that time. In memory, where it has room for
# them and their scripts may run, they do not.
memory=/dev/shm
if [ -z "${TMPDIR:-}" ] && [ -w "$memory" ] && [ "$(df --output=avail -B1M "$memory" | tail -n 1)" -ge 2048 ] &&
    ! findmnt --noheadings --output OPTIONS --target "$memory" | grep -qw noexec; then
  TMPDIR=$(mktemp -d "$memory/stoa-XXXXXX")
  export TMPDIR
  trap 'rm -rf "$TMPDIR"' EXIT
fi
ctest --preset "$preset" -j "$(($(nproc) + 1))"
