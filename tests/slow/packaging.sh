#!/bin/sh
# What tests/e2e/packaging_test.cc cannot know: whether systemd and Kubernetes take the files of packaging/. Offline, but for
# the installation of kubernetes-validate, which brings Kubernetes' schemas: tests/slow/packaging.sh [FOLDER]
set -eu
cd "$(dirname "$0")/../.."
work=${1:-$(mktemp -d)}
[ -x "$work/venv/bin/kubernetes-validate" ] || { python3 -m venv "$work/venv" && "$work/venv/bin/pip" install -q kubernetes-validate; }
"$work/venv/bin/kubernetes-validate" --strict packaging/kubernetes/stoa-serve.yaml
# The program is not where the unit expects it; all else must be right.
unit=$work/stoa-serve@test.service
sed 's|/opt/stoa/bin/stoa|/bin/true|' packaging/systemd/stoa-serve@.service > "$unit"
systemd-analyze verify "$unit"
echo "packaging: systemd and Kubernetes take the files"
