#!/usr/bin/env bash
# keys.sh BUILD: every key of the model in every kind of model, and every argument of every command with every odd
# value. The ordinary run of the tests looks at one in eight of them. About ten minutes.
set -euo pipefail
STOA_WHOLE=1 exec "$1/tests/key_test" --gtest_filter='*KeyOfKind*:*ArgumentTexts*'
