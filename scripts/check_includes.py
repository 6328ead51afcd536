#!/usr/bin/env python3
"""Holds every #include of src/ against the levels of docs/design.md: a folder includes only folders of lower levels. And
files that comments name must exist."""
import pathlib
import re
import sys

LEVELS = {
    "base": 0,
    "config": 1, "grid": 1, "schedule": 1, "tensor": 1,
    "device": 2, "quant": 2,
    "comm": 3, "ops": 3, "formats": 3,
    "parallel": 4,
    "nn": 5,
    "model": 6, "optim": 6, "data": 6, "token": 6, "ckpt": 6, "chat": 6,
    "foreign": 7, "curate": 7, "constraint": 7,
    "infer": 8,
    "run": 9, "watch": 9, "eval": 9, "tune": 9,
    "train": 10, "plan": 10, "serve": 10,
    "cli": 11,
}
# Includes between folders of one level that the design allows.
SIBLINGS = {("tensor", "grid")}
# Third-party headers that only one folder may see.
CONFINED = {
    r"mpi\.h": "src/comm/mpi/",
    r"(cuda|cublas|cudnn)": "src/ops/cuda/ src/device/cuda/",
    r"nccl": "src/comm/nccl/",
    r"CLI/": "src/cli/",
    r"boost/": "src/serve/http/",
    r"openssl/": "src/serve/http/",
}

# A file or folder of the repository in a comment: "(plan/rows)", "ops/loss.h", "docs/memory.md".
NAMED = re.compile(r"\b((?:" + "|".join([*LEVELS, "docs", "tests", "scripts", "configs", "cmake", "bench", "packaging"])
                   + r")/[a-z_0-9/]{2,}(?:\.(?:h|cc|cu|md|py|sh|yaml|cmake))?)(?![a-z_0-9/.-]*[a-z_0-9])")


def names_nothing(name):
    for start in (root / "src", root):
        if (start / name).exists() or any(start.glob(name + ".*")) or any(start.glob(name + "_*")):
            return False
    return True


root = pathlib.Path(__file__).resolve().parent.parent
errors = []
for path in sorted((root / "src").rglob("*")):
    if path.suffix not in {".h", ".cc", ".inl", ".cu", ".cuh"}:
        continue
    name = path.relative_to(root).as_posix()
    folder = name.split("/")[1]
    if folder not in LEVELS:
        errors.append(f"{name}: folder '{folder}' has no level")
        continue
    is_test = path.stem.endswith("_test") or "test" in path.stem
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for named in NAMED.findall(line.partition("//")[2]):
            if names_nothing(named):
                errors.append(f"{name}:{number}: the comment names {named}, which does not exist")
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)[>"]', line)
        if not match:
            continue
        target = match.group(2)
        if match.group(1) == "<":
            for pattern, where in CONFINED.items():
                if re.match(pattern, target) and not any(name.startswith(w) for w in where.split()):
                    errors.append(f"{name}:{number}: <{target}> is allowed in {where} only")
            continue
        other = target.split("/")[0]
        if other == folder:
            continue
        if other not in LEVELS:
            errors.append(f'{name}:{number}: "{target}" is not a path from src/')
        elif LEVELS[other] >= LEVELS[folder] and (folder, other) not in SIBLINGS and not is_test:
            errors.append(f"{name}:{number}: {folder} (level {LEVELS[folder]}) may not include {other} (level {LEVELS[other]})")
    if path.suffix == ".h" and "#pragma once" not in path.read_text(encoding="utf-8"):
        errors.append(f"{name}: no #pragma once")

for error in errors:
    print(error, file=sys.stderr)
if errors:
    sys.exit(1)
print(f"includes: {len(list((root / 'src').rglob('*.h')))} headers keep to the levels")
