#!/usr/bin/env python3
"""each.py RANKS COMMAND…: the command once per rank, with the variables of launchers without MPI.

Exit status: of the first rank that failed (128 + the signal that ended it). As launchers do, it kills what is left (a
stopped rank) 15 seconds after that. (Not a shell script: bash 5.2's `wait -n` misses children that end at once.)
"""
import os
import random
import socket
import subprocess
import sys
import threading


def free_port():
    """Below the ports that the system gives to connections: nobody's connection takes it before rank 0 listens there."""
    while True:
        port = random.randrange(20000, 32000)
        try:
            with socket.socket() as door:
                door.bind(("", port))
            return port
        except OSError:
            pass


def main():
    world, command = int(sys.argv[1]), sys.argv[2:]
    place = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    ranks = [subprocess.Popen(command, env={**os.environ, **place, "RANK": str(r), "LOCAL_RANK": str(r)})
             for r in range(world)]
    status = 0
    for _ in ranks:
        _, how = os.wait()
        code = os.waitstatus_to_exitcode(how)
        if code != 0 and status == 0:
            status = code if code > 0 else 128 - code
            killer = threading.Timer(15, lambda: subprocess.run(["kill", "-KILL", *(str(r.pid) for r in ranks)],
                                                               stderr=subprocess.DEVNULL))
            killer.daemon = True
            killer.start()
    sys.exit(status)


main()
