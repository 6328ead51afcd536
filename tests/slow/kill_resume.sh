#!/usr/bin/env bash
# Kills a training run with SIGKILL at random moments, 20 times, and holds curves, weights and optimizer state against an
# undisturbed run, bit for bit; the same with LoRA over two ranks with ZeRO 1.  tests/slow/kill_resume.sh [build folder] [kills] [steps]     (minutes)
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release}
STOA_KILLS=${2:-20} STOA_KILL_STEPS=${3:-1500} "$build/tests/e2e_test" --gtest_filter='Identity.*KilledAtRandomMoments'
