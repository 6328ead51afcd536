#!/usr/bin/env python3
"""Does every file include what it uses? A build compiles many files of a module together (cmake/StoaParseOnce.cmake), which hides
what a file forgets; here each is compiled by itself, its syntax alone.

  tests/slow/separate_files.py                  all files, some 1,300
  tests/slow/separate_files.py --since COMMIT   what has changed since, and what includes a changed header
  tests/slow/separate_files.py FILE…            these
"""
import concurrent.futures
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], text=True, stdout=subprocess.PIPE).stdout.split()


def changed_since(commit):
    names = git("diff", "--name-only", "--diff-filter=d", commit) + git("ls-files", "--others", "--exclude-standard")
    for header in [name for name in names if name.endswith(".h")]:
        names += git("grep", "-lE", f'#include "(.*/)?{Path(header).name}"', "--", "*.cc")
    return {ROOT / name for name in names if name.endswith(".cc")}


def compile_alone(entry):
    command = entry["command"].split(" -o ")[0] + " -fsyntax-only " + entry["file"]
    done = subprocess.run(command, shell=True, cwd=entry["directory"], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT)
    return entry["file"], done.returncode, done.stdout


def main(words):
    build = ROOT / "build/separate"
    subprocess.run(["cmake", "--preset", "release", "-B", build, "-D", "STOA_PARSE_ONCE=OFF", "-D", "STOA_CCACHE=OFF"],
                   cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    entries = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        entries.setdefault(Path(entry["file"]), entry)  # kernels are compiled several times
    if words[:1] == ["--since"]:
        wanted = changed_since(*words[1:])
    else:
        wanted = {Path(word).resolve() for word in words} or set(entries)
        if unknown := wanted - set(entries):
            sys.exit("not compiled in this build: " + ", ".join(map(str, sorted(unknown))))
    failed = 0
    chosen = [entry for file, entry in sorted(entries.items()) if file in wanted]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as threads:
        for file, status, text in threads.map(compile_alone, chosen):
            if status != 0:
                failed += 1
                print(f"{file} does not compile by itself:\n{text[:2000]}")
    print(f"{len(chosen)} files compiled by themselves, {failed} of them do not")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main(sys.argv[1:])
