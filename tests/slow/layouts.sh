#!/usr/bin/env bash
# The whole layout matrix: layouts that between them hold every pair of choices (degrees, schedules, recomputation,
# model), 20 steps each, against one rank.  tests/slow/layouts.sh [build folder]     (minutes)
set -euo pipefail
cd "$(dirname "$0")/../.."
STOA_LAYOUTS=all "${1:-build/release}/tests/layout_test" --gtest_filter='Covering.*'
