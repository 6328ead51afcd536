"""Training programs that take turns within a step: what a shared machine does to one it does to the other.

`stoa bench train --stepwise` and `stoa bench gemm --stepwise` begin a step when they are told to. Both begin one, and run in slices of a fraction of a second, one while the other and all that it
started is stopped, until both are through: the slow and fast spells of a machine, which last for seconds, fall on both alike.
"""
import json
import math
import os
import pathlib
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

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
    """A command with --stepwise: warmed up by one step, and stopped whenever it is not its turn."""

    def __init__(self, *command):
        command = [str(a) for a in (*command, "--stepwise")]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True,
                                        env={**os.environ, **ENVIRONMENT})
        self.processes = [self.process.pid]
        self.begin_step()
        while not self.run(1): pass
        self.processes = family(self.process.pid)

    def signal(self, number):
        for pid in self.processes:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass

    def begin_step(self):
        self.seconds = 0.0  # of its turns since then
        try:
            self.process.stdin.write("\n")
            self.process.stdin.flush()
        except BrokenPipeError:  # it ended, and run() says why
            pass

    def run(self, most_seconds):
        """A turn. True if the step ended in it."""
        begin = time.monotonic()
        self.signal(signal.SIGCONT)
        ended = bool(select.select([self.process.stdout], [], [], most_seconds)[0])
        self.seconds += time.monotonic() - begin
        self.signal(signal.SIGSTOP)
        if ended and not self.process.stdout.readline():
            self.errors.seek(0)
            sys.exit(f"{' '.join(self.process.args)}\n{self.errors.read()[-3000:]}")
        return ended

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.signal(signal.SIGKILL)
        self.process.wait()


def training(stoa, arguments, steps, launch=()):
    return Program(*launch, stoa, "bench", "train", *arguments, "--warmup", 1, "--steps", steps, "--json")


def alternate(base, other, rounds, most_seconds=0.25):
    """(seconds of the steps of base, of other): a step of each per round, in turns of `most_seconds`."""
    seconds = ([], [])
    for done in range(rounds):
        programs = [base, other] if done % 2 else [other, base]
        for program in programs: program.begin_step()
        while programs: programs = [program for program in programs if not program.run(most_seconds)]
        for program, steps in zip((base, other), seconds): steps.append(program.seconds)
        if sys.stderr.isatty(): print(f"\r{done + 1} of {rounds}, {base.seconds:.2f} s beside {other.seconds:.2f} s ", end="", file=sys.stderr)
    return seconds


def median_and_interval(values):
    """The median and the order statistics that hold the true median with 95 % confidence, whatever the distribution (seven values: their range)."""
    values, n = sorted(values), len(values)
    outside, k = 2 / 2**n, 0
    while k + 1 < n / 2 and outside + 2 * math.comb(n, k + 1) / 2**n <= 0.05:
        k += 1
        outside += 2 * math.comb(n, k) / 2**n
    return statistics.median(values), [values[k], values[n - 1 - k]]
