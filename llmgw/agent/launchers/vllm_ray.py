"""Run one rank of vLLM over Ray, as one process tree that ends as a whole.

    vllm_ray.py head --head ADDRESS --port PORT --own ADDRESS --nodes N --gpus G -- PROGRAM ARGUMENT...
    vllm_ray.py join --head ADDRESS --port PORT --own ADDRESS --nodes N --gpus G --

This script is started by the Python of an engine environment, never imported: it may use the standard library and Ray.

1. The head starts Ray's head and waits until all nodes have joined it; only then it starts the program.
2. A node that joins tries again for as long as the head does not answer, and ends when it has left Ray.
3. When one of the processes ends, the others are ended and this script ends with its status. SIGTERM ends the program
   first, then Ray.
4. Nothing outlives it in a session of its own but what Ray starts itself, which carries the environment it was given.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time

JOIN_WITHIN_S = 1800.0
RETRY_S = 1.0
SETTLED_S = 20.0
ASK_S = 1.0
GRACE_S = 10.0


def arguments():
    """Read the command line: options, and the program behind the --."""
    words = sys.argv[1:]
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("role", choices=("head", "join"))
    parser.add_argument("--head", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--own", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--gpus", type=int, required=True)
    split = words.index("--")
    return parser.parse_args(words[:split]), words[split + 1 :]


def say(text):
    """Say where it is, into the engine's output."""
    print(f"vllm over ray: {text}", flush=True)


class Tree:
    """The processes of this rank. `begin` adds one, `end` ends all, the last begun first."""

    def __init__(self):
        self.processes = []
        self.told = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.told.set())

    def begin(self, words, env):
        """Start a process in this session."""
        self.processes.append(subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL))
        return self.processes[-1]

    def wait(self):
        """Wait until one of them ends or this script is told to; returns the status to end with."""
        while not self.told.is_set():
            for process in self.processes:
                if process.poll() is not None:
                    return process.returncode
            self.told.wait(0.1)
        return 0

    def end(self):
        """End what is left, politely first."""
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(GRACE_S)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()


def ray_start(options, *words):
    """Spell the command that starts Ray on this node and stays until it has ended."""
    ray = os.path.join(os.path.dirname(sys.executable), "ray")
    own = ["--node-ip-address", options.own, "--num-gpus", str(options.gpus)]
    return [sys.executable, "-I", ray, "start", *words, *own, "--disable-usage-stats", "--block"]


def place(options):
    """Spell where the head is."""
    host = f"[{options.head}]" if ":" in options.head else options.head
    return f"{host}:{options.port}"


def nodes_there(options):
    """Ask the head how many nodes it has; 0 when it does not answer."""
    code = (
        "import sys, ray; ray.init(address=sys.argv[1], logging_level='ERROR', log_to_driver=False); "
        "print('nodes', sum(bool(n.get('Alive')) for n in ray.nodes()))"
    )
    try:
        asked = subprocess.run(
            [sys.executable, "-I", "-c", code, place(options)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 0
    found = [line.split() for line in asked.stdout.splitlines() if line.startswith("nodes ")]
    return int(found[-1][1]) if found else 0


def head(options, program, tree):
    """Start Ray's head, wait for the other nodes, and serve."""
    ray = tree.begin(
        ray_start(options, "--head", "--port", str(options.port), "--include-dashboard=false"), None
    )
    ends, seen = time.monotonic() + JOIN_WITHIN_S, -1
    while (there := nodes_there(options)) < options.nodes:
        if there != seen:
            seen = there
            say(f"{there} of {options.nodes} nodes have joined")
        if tree.told.wait(ASK_S):
            return 0
        if ray.poll() is not None:
            say(f"Ray's head did not stay: it ended with status {ray.returncode}")
            return ray.returncode or 1
        if time.monotonic() > ends:
            say(f"not all nodes joined Ray within {JOIN_WITHIN_S:.0f} s: {there} of {options.nodes}")
            return 1
    say(f"all {options.nodes} nodes have joined; starting the server")
    tree.begin(program, os.environ | {"RAY_ADDRESS": place(options)})
    return tree.wait()


def join(options, tree):
    """Join Ray's head, however late that comes, and stay."""
    ends = time.monotonic() + JOIN_WITHIN_S
    while True:
        began = time.monotonic()
        tree.begin(ray_start(options, "--address", place(options)), None)
        status = tree.wait()
        if tree.told.is_set():
            return 0
        if time.monotonic() - began >= SETTLED_S or time.monotonic() > ends:
            say(f"Ray ended on this node with status {status}")
            return status or 1
        tree.processes.clear()
        say(f"the head at {place(options)} does not take this node yet (status {status}); trying again")
        if tree.told.wait(RETRY_S):
            return 0


def main():
    """Run one rank until it ends."""
    options, program = arguments()
    tree = Tree()
    try:
        return head(options, program, tree) if options.role == "head" else join(options, tree)
    finally:
        tree.end()


if __name__ == "__main__":
    try:
        status = main()
    except FileNotFoundError as error:
        say(f"the environment has no ray: {error}")
        status = 1
    sys.exit(status if status >= 0 else 128 - status)
