#!/usr/bin/env bash
# Runs the commands of README.md that are marked as tested: each ```console block after a line `<!-- tested -->`, in one new
# folder, in order, with `stoa` on the path.  tests/readme_commands.sh STOA [README.md [FOLDER]]
# FOLDER: what lies in the new folder at the start.
set -euo pipefail
program=$(realpath "$1")
readme=$(realpath "${2:-$(dirname "$0")/../README.md}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
awk '
  /^<!-- tested -->[[:space:]]*$/ { marked = 1; next }
  marked && /^```console[[:space:]]*$/ { inside = 1; marked = 0; next }
  inside && /^```[[:space:]]*$/ { inside = 0; next }
  inside { sub(/^\$ /, ""); print; next }
  !/^[[:space:]]*$/ { marked = 0 }
' "$readme" > "$work/commands.sh"
if [ ! -s "$work/commands.sh" ]; then
  echo "no block of $readme is marked with <!-- tested -->"
  exit 77  # ctest: skipped
fi
mkdir "$work/run"
[ -z "${3:-}" ] || cp -r "$3/." "$work/run"
cd "$work/run"
# A command that fails leaves no server behind: it would hold the pipe of the test until its time is over.
cat - "$work/commands.sh" > "$work/guarded.sh" <<'END'
trap 'kill $(jobs -p) 2> /dev/null || true' EXIT
END
PATH="$(dirname "$program"):$PATH" bash -euxo pipefail "$work/guarded.sh"
