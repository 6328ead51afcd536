#!/usr/bin/env python3
"""Reads the event files of a run directory with the tensorboard package and holds them against metrics.jsonl.

Usage: check_tensorboard.py RUN_DIRECTORY

A run directory with a kill and a resume comes from
  STOA_WATCH_RUN=DIR build/release/src/watch_test --gtest_filter=Report.ResumedRunShowsTheWholeStory
Not part of ctest: it needs the tensorboard package.
"""
import json
import math
import pathlib
import sys

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

directory = pathlib.Path(sys.argv[1])
accumulator = EventAccumulator(str(directory), size_guidance={"scalars": 0, "tensors": 0})
accumulator.Reload()

expected = {}
for line in (directory / "metrics.jsonl").read_text().splitlines():
    values = json.loads(line)
    step = values.pop("step")
    for tag, value in values.items():
        if value is not None:
            expected.setdefault(tag, []).append((step, float(numpy.float32(value))))

found = {tag: [(e.step, e.value) for e in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]}
assert found.keys() == expected.keys(), (sorted(found), sorted(expected))
for tag, curve in expected.items():
    assert [s for s, _ in found[tag]] == [s for s, _ in curve], f"{tag}: steps differ"
    for (step, got), (_, want) in zip(found[tag], curve):
        assert math.isclose(got, want, rel_tol=1e-7), f"{tag} at step {step}: {got} is not {want}"
samples = [(e.step, e.tensor_proto.string_val[0].decode()) for e in accumulator.Tensors("sample")] if "sample" in accumulator.Tags()["tensors"] else []
print(f"{len(expected)} curves, {sum(map(len, expected.values()))} values agree; {len(samples)} samples, last: {samples[-1] if samples else None}")
