#!/usr/bin/env python3
"""Reads every task file of an installed lm_eval with Stoa and with PyYAML: each is read with the same values, or refused with a reason.

    lm_eval_tasks.py --stoa build/release/src/stoa --tasks .../site-packages/lm_eval/tasks [--folders arc,mmlu]
"""
import argparse
import collections
import json
import pathlib
import re
import subprocess

import yaml


class Loader(yaml.CSafeLoader):
    pass


Loader.add_constructor("!function", lambda loader, node: loader.construct_scalar(node))


def merged(path):
    own = yaml.load(path.read_text(encoding="utf-8"), Loader=Loader)
    includes = own.pop("include", [])
    out = {}
    for name in includes if isinstance(includes, list) else [includes]:
        theirs = merged(path.parent / name)
        theirs.pop("task_list", None)
        out.update(theirs)
    return out | own


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stoa", required=True)
    parser.add_argument("--tasks", type=pathlib.Path, required=True)
    parser.add_argument("--folders", default="", help="only these, separated by commas")
    arguments = parser.parse_args()
    folders = ([arguments.tasks / f for f in arguments.folders.split(",")] if arguments.folders
               else sorted(p for p in arguments.tasks.iterdir() if p.is_dir() and not p.name.startswith("__")))
    right, wrong, reasons = 0, [], collections.Counter()
    for folder in folders:
        answer = json.loads(subprocess.run([arguments.stoa, "eval", "tasks", "--include_path", folder, "--json"], check=True,
                                           capture_output=True).stdout)
        for task in answer["tasks"]:
            if not task["file"].startswith(str(folder)):
                continue
            if "refused" in task:
                reasons[re.sub(r"'[^']*'|\d+", "…", task["refused"].removeprefix(task["file"]))[:90]] += 1
                continue
            theirs = merged(pathlib.Path(task["file"]))
            if json.loads(json.dumps(theirs)) == task["config"]:
                right += 1
            else:
                wrong.append(task["file"])
        for problem in answer["problems"]:
            if problem["file"].startswith(str(folder)):
                reasons["file: " + re.sub(r"'[^']*'|\d+", "…", problem["problem"].removeprefix(problem["file"]))[:90]] += 1
    print(f"{right} tasks read as PyYAML reads them, {sum(reasons.values())} refused, {len(wrong)} read wrong")
    for reason, count in reasons.most_common(40):
        print(f"{count:6} {reason}")
    for name in wrong[:20]:
        print("WRONG", name)
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
