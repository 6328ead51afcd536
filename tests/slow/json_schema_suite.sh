#!/bin/bash
# The JSON Schema organisation's own tests, as the source package of jsonschema has them, against the grammars of schemas: what a
# grammar accepts must be valid. Needs pip. Prints how many schemas are compiled and how many valid instances are accepted.
#   tests/slow/json_schema_suite.sh CONSTRAINT_TEST        the program, such as build/release/src/constraint_test
set -euo pipefail
program=$(realpath "$1")
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
pip download --quiet --no-deps --no-binary :all: --dest "$work" jsonschema==4.26.0
tar -xzf "$work"/jsonschema-4.26.0.tar.gz -C "$work"
STOA_JSON_SCHEMA_SUITE=$work/jsonschema-4.26.0/json/tests "$program" --gtest_filter='JsonSchemaSuite.*'
