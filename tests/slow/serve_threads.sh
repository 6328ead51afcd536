#!/bin/sh
# ThreadSanitizer on the server: its own tests, those of the engine and its loops, and the program behind HTTP. Ends with an error at the
# first report. The build takes an hour on two cores.  tests/slow/serve_threads.sh [FILTER_OF_E2E]
set -eu
cd "$(dirname "$0")/../.."
cmake --preset tsan
cmake --build --preset tsan --target serve_test infer_test e2e_test stoa
export TSAN_OPTIONS="halt_on_error=1 second_deadlock_stack=1"
build/tsan/src/serve_test
build/tsan/src/infer_test --gtest_filter='Engine*:EncoderLoop*:Speculation*:SameBits*:SourceBits*:TextLosses*:FindTargets*'
build/tsan/tests/e2e_test --gtest_filter="${1:-Serve*}"
