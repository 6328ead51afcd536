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
ctest --preset "$preset" -j "$(($(nproc) + 1))"
