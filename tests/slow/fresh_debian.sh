#!/usr/bin/env bash
# Proves the two commands of the README on a Debian that has nothing: makes one with debootstrap, copies this checkout's
# committed files into it and runs the given script there as root, without sudo.
#
#   tests/slow/fresh_debian.sh bookworm DIRECTORY scripts/test.sh
#   tests/slow/fresh_debian.sh trixie   DIRECTORY env MINUTES=1 scripts/quickstart.sh
#
# Needs root, debootstrap and a package mirror; MIRROR=URL chooses it (default: the first one this machine uses).
set -euo pipefail
[ $# -ge 3 ] || { sed -n '2,9p' "$0"; exit 2; }
suite=$1 target=$2; shift 2
root=$(cd "$(dirname "$0")/../.." && pwd)
if [ ! -x "$target/bin/bash" ]; then
  mirror=${MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 2>/dev/null | sed -n 1p)}
  debootstrap --variant=minbase "$suite" "$target" "$mirror"
fi
for file in /etc/resolv.conf /etc/hosts; do cp "$file" "$target$file"; done
mountpoint -q "$target/proc" || mount -t proc proc "$target/proc"
mountpoint -q "$target/sys" || mount -t sysfs sys "$target/sys"  # Open MPI 5 looks there for the cores
mountpoint -q "$target/dev" || mount --rbind --make-rslave /dev "$target/dev"  # with the pseudo-terminals
trap 'umount -R "$target/dev"; umount "$target/sys" "$target/proc"' EXIT
rm -rf "$target/stoa"  # an earlier build may be newer than the times of the files that the archive gives
mkdir "$target/stoa"
git -C "$root" archive HEAD | tar -x -C "$target/stoa"
chroot "$target" /bin/bash -c 'cd /stoa && export HOME=/root LANG=C.UTF-8 && exec "$@"' bash "$@"
