#!/usr/bin/env bash
# Installs what Stoa is built with, on Debian 12 or 13. Needs root or sudo; asks for nothing when all is there.
set -euo pipefail
packages=(g++ cmake ninja-build pkg-config git ca-certificates curl python3
          libfmt-dev libyaml-cpp-dev nlohmann-json3-dev libsimdjson-dev libcli11-dev libxxhash-dev
          libzstd-dev zlib1g-dev libbz2-dev liblzma-dev libedit-dev libuchardet-dev libbrotli-dev libcld2-dev libutf8proc-dev libonig-dev libsentencepiece-dev libgtest-dev libgmock-dev libboost-dev libssl-dev libopenmpi-dev openmpi-bin)
[ $# -gt 0 ] && packages+=("$@")
missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then exit 0; fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "These packages are missing and this user cannot install them: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "Installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
