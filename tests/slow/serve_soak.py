#!/usr/bin/env python3
"""`stoa serve` for half an hour under more requests than it can answer, from clients that read, leave early and read slowly.

  python tests/slow/serve_soak.py --model MODEL [--minutes 30] [--load 1.2] [--queue-seconds 5]

First the answers of some prompts are drawn one by one, then the server's capacity is measured with 16 clients. From then on requests arrive at random, at --load
times the capacity: of ten requests eight are read to their end, one is left after some words, one is read slowly (a word, then a pause). Checked: every request
that was accepted and read gets the answer that its prompt had alone, whole; all others are refused with 429 or 503 and a Retry-After; the memory of the process
stays within 1 % of that after the first fifth of the time; afterwards no request runs or waits, no block and no file descriptor is in use that was not before.
Prints a JSON object; exits with status 1 if something does not hold.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time

STOA = pathlib.Path(__file__).resolve().parents[2] / "build/release/src/stoa"
CLIENTS, PROMPTS, ANSWER = 16, 24, 32
WORDS = "the road stone river answer question number house walks counts every under between seven".split()


class Server:
    def __init__(self, stoa, model, queue_seconds):
        self.process = subprocess.Popen([stoa, "serve", model, "--port", "0", "--max-context", "1024", "--max-queue-seconds", str(queue_seconds)],
                                        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        line = self.process.stdout.readline()
        if "listening on" not in line: sys.exit("the server did not start")
        self.port = int(line.strip().rsplit(":", 1)[1])

    def connect(self, timeout=300):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def memory(self):
        """Bytes of memory that it holds itself; what it maps of files is not counted."""
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(re.search(r"RssAnon:\s+(\d+)", status).group(1))

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def metric(self, name):
        connection = self.connect()
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        return sum(float(value) for value in re.findall(rf"^vllm:{name}\{{[^}}]*\}} (\S+)$", text, re.M))


def body_of(prompt):
    return json.dumps({"prompt": prompt, "max_tokens": ANSWER, "temperature": 0, "ignore_eos": True, "stream": True})


def texts_of(reply):
    """The texts of a stream's events; the last is None if it said [DONE]."""
    for line in reply:
        if not line.startswith(b"data: "): continue
        if line.strip() == b"data: [DONE]":
            yield None
            return
        event = json.loads(line[6:])
        if "error" in event: raise RuntimeError(event["error"])
        for choice in event["choices"]: yield choice["text"]


class Soak:
    def __init__(self, server, prompts):
        self.server, self.prompts, self.lock = server, prompts, threading.Lock()
        self.expected, self.counts, self.faults = {}, {}, []

    def count(self, what, fault=None):
        with self.lock:
            self.counts[what] = self.counts.get(what, 0) + 1
            if fault and len(self.faults) < 20: self.faults.append(fault)

    def ask(self, prompt, kind, draw):
        """One request; counts how it ended, and returns whether it was accepted."""
        leave_after = draw.randrange(0, ANSWER // 2)
        connection = self.server.connect()
        try:
            if kind == "slow":  # little is taken by the system for a client that does not read
                connection.connect()
                connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            connection.request("POST", "/v1/completions", body_of(prompt), {"Content-Type": "application/json"})
            if kind == "leave" and leave_after == 0:
                self.count("left")
                return True
            reply = connection.getresponse()
            if reply.status in (429, 503):
                if not reply.getheader("Retry-After"): self.count("fault", f"status {reply.status} without Retry-After")
                self.count("refused")
                return False
            if reply.status != 200: raise RuntimeError(f"status {reply.status}: {reply.read(300)}")
            text, done = "", False
            for i, piece in enumerate(texts_of(reply)):
                if piece is None:
                    done = True
                    break
                text += piece
                if kind == "leave" and i >= leave_after:
                    self.count("left")
                    return True
                if kind == "slow": time.sleep(0.2)
            if not done: raise RuntimeError(f"the stream ended after {text!r}")
            if text != self.expected[prompt]: raise RuntimeError(f"{text!r} instead of {self.expected[prompt]!r}")
            self.count("answered" if kind == "read" else "answered slowly")
        except Exception as error:  # every fault of a request is reported, and the load goes on
            self.count("fault", f"{kind}: {type(error).__name__}: {error}")
        finally:
            connection.close()
        return True

    def alone(self, prompt):
        connection = self.server.connect()
        connection.request("POST", "/v1/completions", body_of(prompt), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        if reply.status != 200: sys.exit(f"status {reply.status}: {reply.read(300)}")
        self.expected[prompt] = "".join(text for text in texts_of(reply) if text is not None)
        connection.close()

    def capacity(self, seconds):
        """Requests per second of CLIENTS clients that ask again as soon as they were answered."""
        end, before = time.monotonic() + seconds, self.counts.get("answered", 0)

        def client(number):
            draw = random.Random(number)
            while time.monotonic() < end:
                if not self.ask(draw.choice(self.prompts), "read", draw): time.sleep(0.1)

        begin = time.monotonic()
        threads = [threading.Thread(target=client, args=(n,)) for n in range(CLIENTS)]
        for t in threads: t.start()
        for t in threads: t.join()
        return (self.counts.get("answered", 0) - before) / (time.monotonic() - begin)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--stoa", default=STOA)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--load", type=float, default=1.2)
    parser.add_argument("--queue-seconds", type=float, default=5)
    args = parser.parse_args()
    draw = random.Random(5)
    prompts = [" ".join(draw.choice(WORDS) for _ in range(draw.randrange(5, 60))) for _ in range(PROMPTS)]
    server = Server(args.stoa, args.model, args.queue_seconds)
    soak = Soak(server, prompts)
    for prompt in prompts: soak.alone(prompt)
    time.sleep(1)  # the last connection is seen to be closed
    idle = server.descriptors()
    rate = args.load * soak.capacity(20)
    threads, begin, memory = [], time.monotonic(), []
    end, due, look = begin + 60 * args.minutes, begin, begin
    while time.monotonic() < end and server.process.poll() is None:
        now = time.monotonic()
        if now >= look:
            look += 5
            memory.append((now - begin, server.memory()))
            threads = [t for t in threads if t.is_alive()]
            print(f"\r{now - begin:6.0f} s, {rate:.1f} requests/s, {len(threads)} open, {soak.counts}", end="", file=sys.stderr, flush=True)
        if now < due:
            time.sleep(min(due - now, 0.5))
            continue
        due = max(due, now - 1) + draw.expovariate(rate)  # a machine that stood still is not flooded afterwards
        kind = draw.choices(("read", "leave", "slow"), (8, 1, 1))[0]
        threads.append(threading.Thread(target=soak.ask, args=(draw.choice(prompts), kind, random.Random(draw.random()))))
        threads[-1].start()
    for t in threads: t.join()
    print(file=sys.stderr)
    if server.process.poll() is not None: sys.exit(f"the server ended with status {server.process.returncode}")
    time.sleep(2)
    left = {name: server.metric(name) for name in ("num_requests_running", "num_requests_waiting", "kv_cache_usage_perc")}
    settled = [bytes_ for at, bytes_ in memory if at >= 12 * args.minutes]
    growth = settled[-1] / settled[0] - 1
    for _ in range(100):  # likewise
        if (after := server.descriptors()) <= idle: break
        time.sleep(0.1)
    server.process.send_signal(signal.SIGTERM)
    status = server.process.wait()
    checks = {"no faults": not soak.faults, "requests were refused": soak.counts.get("refused", 0) > 0, "memory within 1 %": abs(growth) <= 0.01,
              "nothing left": not any(left.values()), "descriptors back": after <= idle, "ends with status 0": status == 0}
    print(json.dumps({"model": pathlib.Path(args.model).name, "minutes": args.minutes, "requests_per_second": rate, "counts": soak.counts, "faults": soak.faults,
                      "memory_growth": growth, "memory_bytes": settled[-1], "left": left, "descriptors": [idle, after], "checks": checks}, indent=1))
    sys.exit(0 if all(checks.values()) else 1)


if __name__ == "__main__":
    main()
