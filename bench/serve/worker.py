"""A program of another engine that answers jobs: a line of JSON with {"prompts": [[ids…], …], "answer": tokens} comes in, the seconds that it took go out."""
import json
import os
import signal
import subprocess


class Worker:
    def __init__(self, *command, environment=None):
        """`environment`: what it has beyond ours; `ready`: it has read its model."""
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        start_new_session=True, env={**os.environ, **(environment or {})})
        self.ready = self.process.stdout.readline().strip() == "ready"

    def answer(self, prompts, answer):
        """Seconds; none if it ended."""
        self.process.stdin.write(json.dumps({"prompts": prompts, "answer": answer}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def pause(self, on):
        """Its threads and processes take no time while others are measured."""
        os.killpg(self.process.pid, signal.SIGSTOP if on else signal.SIGCONT)

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
