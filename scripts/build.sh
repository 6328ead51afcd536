#!/usr/bin/env bash
# Builds one preset (release, debug, asan, tsan) and prints where the program lies.
set -euo pipefail
cd "$(dirname "$0")/.."
preset=${1:-release}; shift || true
cmake --preset "$preset" "$@" >&2
cmake --build --preset "$preset" >&2
