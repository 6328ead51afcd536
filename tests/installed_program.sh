#!/usr/bin/env bash
# An installed Stoa, moved to a folder with a blank in its name, in an empty environment: it takes from the machine nothing but
# glibc (and MPI, where it was built with it), finds its presets, plans and trains.  tests/installed_program.sh FOLDER (which has bin/stoa)
set -euo pipefail
elsewhere=$(mktemp -d)
trap 'rm -rf "$elsewhere"' EXIT
cp -r "$1" "$elsewhere/moved here"
program="$elsewhere/moved here/bin/stoa"
libraries=$(ldd "$program")
if [[ $libraries != *libmpi* ]]; then  # which brings libraries of its own
  outside=$(awk '$2 == "=>" {sub(/^[^>]*> /, ""); print}' <<<"$libraries" | grep -v -e "^$elsewhere" -e '/lib\(c\|m\|dl\|rt\|pthread\)\.so' || true)
  [ -z "$outside" ] || { echo "the program takes from this machine: $outside" >&2; exit 1; }
fi
cd "$elsewhere"
env -i "$program" --version
env -i "$program" plan memory gpt2-124m >plan.txt
env -i "$program" bench train tiny model.encoder_seq_length=32 model.micro_batch_size=1 model.global_batch_size=2 --steps 1 --warmup 0 --ranks 2 >bench.txt
[ -n "$(ls "moved here/share/stoa/licences")" ]
