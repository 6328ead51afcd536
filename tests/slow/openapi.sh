#!/bin/sh
# Has schemathesis try the interface that a server describes (/openapi.json): no fault, no undocumented status or type of content,
# nothing taken that the description forbids. tests/slow/openapi.sh STOA MODEL [EXAMPLES [FOLDER]]
set -eu
program=$(realpath "$1")
work=${4:-$(mktemp -d)}
[ -x "$work/venv/bin/schemathesis" ] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q schemathesis; }
"$program" serve "served=$2" --port 0 --max-context 64 > "$work/listening.txt" & server=$!
trap 'kill $server' EXIT
until grep -q listening "$work/listening.txt"; do sleep 0.2; done
"$work/venv/bin/schemathesis" run "$(cut -d' ' -f3 "$work/listening.txt")/openapi.json" --max-examples "${3:-50}" --phases fuzzing \
  --checks not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,unsupported_method,negative_data_rejection
