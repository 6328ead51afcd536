#!/usr/bin/env bash
# Makes build/bundle/stoa-VERSION-….tar.xz: one folder that runs from wherever it is unpacked, on any x86-64 Linux with glibc
# of this machine's age or later. With the CUDA backend where the toolkit is; NVIDIA's libraries stay out. Without MPI: ranks
# are threads, or processes that find each other over TCP. Then the archive is unpacked elsewhere and tried.
#   scripts/bundle.sh [CMake options, such as -DSTOA_CUDA_ARCHITECTURES=90]
set -euo pipefail
cd "$(dirname "$0")/.."
most=100000000  # bytes
scripts/install_dependencies.sh
cmake --preset bundle "$@" >&2
cmake --build --preset bundle --target stoa >&2
rm -f build/bundle/stoa-*.tar.xz
(cd build/bundle && cpack >&2)
archive=$(ls build/bundle/stoa-*.tar.xz)
bytes=$(stat -c %s "$archive")
[ "$bytes" -lt "$most" ] || { echo "$archive has $bytes bytes, more than $most" >&2; exit 1; }

elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT
(cd "$elsewhere" && cmake -E tar xf "$OLDPWD/$archive")
tests/installed_program.sh "$elsewhere"/stoa-*
echo "$archive: $((bytes / 1000000)) MB; unpacked elsewhere it plans and trains"
