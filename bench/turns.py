"""Training programs that take turns, step by step: what a shared machine does to one it does to the other.

`stoa bench train --stepwise` begins a step when it is told to; between its turns a program and all that it started are stopped.
"""
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

import common

ENVIRONMENT = {**common.OPEN_MPI, "OMPI_MCA_hwloc_base_binding_policy": "none"}


def family(pid):
    """The process and its descendants."""
    children = {}
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            children.setdefault(int(stat.read_text().rpartition(")")[2].split()[1]), []).append(int(stat.parent.name))
        except OSError:  # ended meanwhile
            pass
    found = [pid]
    for one in found: found += children.get(one, [])
    return found


class Program:
    """One `stoa bench train`: warmed up by one step, then stopped until its turn."""

    def __init__(self, stoa, arguments, steps, launch=()):
        command = [str(a) for a in (*launch, stoa, "bench", "train", *arguments, "--stepwise", "--warmup", 1, "--steps", steps, "--json")]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, **ENVIRONMENT})
        self.step()

    def signal(self, number):
        for pid in family(self.process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            self.errors.seek(0)
            sys.exit(f"{' '.join(self.process.args)}\n{self.errors.read()[-3000:]}")
        return json.loads(text)

    def step(self):
        self.signal(signal.SIGCONT)
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it ended, and line() says why
            pass
        seconds = self.line()["seconds"]
        self.signal(signal.SIGSTOP)
        return seconds

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.signal(signal.SIGKILL)
        self.process.wait()


def alternate(base, other, rounds):
    """(seconds of base, rounds + 1 of them; seconds of other): each turn of `other` lies between two of `base`."""
    ours, theirs = [base.step()], []
    for done in range(rounds):
        theirs.append(other.step())
        ours.append(base.step())
        if sys.stderr.isatty(): print(f"\r{done + 1} of {rounds}, {ours[-1]:.2f} s beside {theirs[-1]:.2f} s ", end="", file=sys.stderr)
    return ours, theirs


def times_as_fast(ours, theirs):
    """How many times as fast `theirs` is, per turn, beside the mean of the turns before and after it."""
    return [(ours[i] + ours[i + 1]) / 2 / seconds for i, seconds in enumerate(theirs)]


def median_and_interval(values):
    """The median and the order statistics that hold the true median with 95 % confidence, whatever the distribution (seven values: their range)."""
    values, n = sorted(values), len(values)
    outside, k = 2 / 2**n, 0
    while k + 1 < n / 2 and outside + 2 * math.comb(n, k + 1) / 2**n <= 0.05:
        k += 1
        outside += 2 * math.comb(n, k) / 2**n
    return statistics.median(values), [values[k], values[n - 1 - k]]
