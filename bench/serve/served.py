"""`stoa serve` for the programs of this folder."""
import subprocess
import sys


def start(stoa, model, *options):
    """The process, and its address: http://127.0.0.1:PORT."""
    process = subprocess.Popen([stoa, "serve", model, "--port", "0", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    if "listening on" not in line: sys.exit(f"stoa serve {model} did not start")
    return process, line.split()[-1]


def stop(process):
    process.terminate()
    process.wait()
