#!/usr/bin/env bash
# Builds the documentation as a site that works offline: build/site/html/index.html, with search, drawings and the results
# of benchmarks. Takes mkdocs-material from PyPI into build/site; PYTHON names another interpreter that has it already.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-}
if [ -z "$python" ]; then
  [ -x build/site/venv/bin/mkdocs ] || { python3 -m venv build/site/venv && build/site/venv/bin/pip install -q 'mkdocs-material==9.*'; }
  python=build/site/venv/bin/python
fi
# Pages keep their places, so that links between them hold in the repository and in the site.
rm -rf build/site/pages
mkdir -p build/site/pages/bench
cp -r README.md CHANGELOG.md CONTRIBUTING.md LICENSE docs build/site/pages
cp -r bench/results build/site/pages/bench
rm build/site/pages/docs/mkdocs.yml
# The sources are not part of the site: links to them become plain text.
sed -i -E 's#\[([^][]+)\]\(\.\./src/[^)]*\)#\1#g' build/site/pages/docs/*.md
"$python" -m mkdocs build --quiet --strict --config-file docs/mkdocs.yml
echo "build/site/html/index.html"
