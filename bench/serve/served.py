"""`stoa serve` for the programs of this folder."""
import concurrent.futures
import json
import subprocess
import sys
import time
import urllib.request


def start(stoa, model, *options):
    """The process, and its address: http://127.0.0.1:PORT."""
    process = subprocess.Popen([stoa, "serve", model, "--port", "0", *map(str, options)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    line = process.stdout.readline()
    if "listening on" not in line: sys.exit(f"stoa serve {model} did not start")
    return process, line.split()[-1]


def stop(process):
    process.terminate()
    process.wait()


class Server:
    """`stoa serve` on a model, asked for many answers at once."""

    def __init__(self, stoa, model, clients, *options):
        self.process, address = start(stoa, f"model={model}", *options)
        self.url = address + "/v1/completions"
        self.clients = concurrent.futures.ThreadPoolExecutor(clients)

    def ask(self, ids, answer):
        body = json.dumps({"prompt": ids, "max_tokens": answer, "min_tokens": answer, "ignore_eos": True, "temperature": 0}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url, body, {"Content-Type": "application/json"})) as reply:
            tokens = json.load(reply)["usage"]["completion_tokens"]
        if tokens != answer: sys.exit(f"{tokens} tokens instead of {answer}")

    def run(self, prompts, answer):
        """Seconds until all prompts, of ids, have an answer of so many tokens."""
        begin = time.perf_counter()
        list(self.clients.map(lambda ids: self.ask(ids, answer), prompts))
        return time.perf_counter() - begin

    def stop(self):
        stop(self.process)
