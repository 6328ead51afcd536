#!/usr/bin/env python3
"""Published config.json files beside the reader: which are read, and why the others are not.

  python tests/slow/real_configs.py --stoa build/release/src/stoa FOLDER...

Every *.json of the folders that names a model_type is planned on one GPU. A file is well refused where its model_type is not a family of
Stoa; any other refusal is printed with its reason, and the exit code is 1. Collections of published files lie in the repositories of
planners and inference servers.
"""
import argparse
import collections
import json
import pathlib
import subprocess
import sys


def model_type(path):
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return None
    return found.get("model_type") if isinstance(found, dict) else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", required=True)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    read, foreign, refused = 0, collections.Counter(), 0
    for path in sorted(path for folder in options.folders for path in folder.rglob("*.json")):
        kind = model_type(path)
        if kind is None: continue
        run = subprocess.run([options.stoa, "plan", "memory", str(path)], capture_output=True, text=True)
        if run.returncode == 0:
            read += 1
        elif "is not a family that Stoa can load" in run.stderr:
            foreign[kind] += 1
        else:
            refused += 1
            print(f"{path} ({kind}): {run.stderr.strip()}")
    print(f"{read} read, {refused} refused; of other families: {', '.join(f'{kind} {n}' for kind, n in sorted(foreign.items()))}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
