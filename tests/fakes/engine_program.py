"""A program that behaves like an engine: an HTTP server with /health, and switches for everything that goes wrong.

Run by a Python of its own, standard library only. Switches: --host, --port, --load SECONDS (503 until then),
--never-ready, --ready-when FILE, --chat SECONDS (a line of output that often), --die STATUS (at once, behind some
words), --die-when FILE (as soon as it exists), --ignore-term, --fork FILE (a child that ignores SIGTERM; its pid is
written to FILE), --fork-away FILE (the same in a session of its own), --unhealthy-when FILE, --say WORDS, --flood MIB
(so much output at once), --steal FILE --steals NUMBER (lets a stranger take its port in so many runs; their pids go to
FILE), --bind-after SECONDS.
"""

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

STRANGER = """
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
"""


def steal(options):
    """Let a process that is nobody's take the port before this one does."""
    file = Path(options.steal)
    before = file.read_text() if file.exists() else ""
    if before.count("\n") >= options.steals:
        return
    argv = [sys.executable, "-Ic", STRANGER, str(options.port)]
    stranger = subprocess.Popen(argv, env={}, start_new_session=True)
    file.write_text(f"{before}{stranger.pid}\n")
    while True:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", options.port)).close()
            return
        time.sleep(0.02)


def arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--load", type=float, default=0.0)
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--ready-when")
    parser.add_argument("--chat", type=float)
    parser.add_argument("--fork-away")
    parser.add_argument("--die", type=int)
    parser.add_argument("--die-when")
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--fork")
    parser.add_argument("--unhealthy-when")
    parser.add_argument("--say")
    parser.add_argument("--flood", type=int, default=0)
    parser.add_argument("--steal")
    parser.add_argument("--steals", type=int, default=1)
    parser.add_argument("--bind-after", type=float, default=0.0)
    parser.add_argument("--version", action="store_true")
    # The rest are flags of the engine that it may stand in for.
    return parser.parse_known_args()[0]


def begin(options):
    """Do what is to be done before anything listens."""
    print(f"engine starts on {options.host}:{options.port}", flush=True)
    if options.say:
        print(options.say, flush=True)
    for number in range(options.flood):
        print(f"flood {number} " + "x" * (1024 * 1024 - 20), flush=True)
    if options.steal:
        steal(options)
    for file, away in ((options.fork, False), (options.fork_away, True)):
        if file:
            child = subprocess.Popen([sys.executable, "-c", CHILD], start_new_session=away)
            Path(file).write_text(str(child.pid))
    if options.ignore_term:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def handler(options):
    """Make what answers as the switches say."""
    began = time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            loading = options.never_ready or time.monotonic() - began < options.load
            loading = loading or bool(options.ready_when and not os.path.exists(options.ready_when))
            unhealthy = options.unhealthy_when and os.path.exists(options.unhealthy_when)
            body = b'{"status":"ok"}'
            self.send_response(500 if unhealthy else 503 if loading else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    return Handler


def main():
    options = arguments()
    if options.version:
        print("version: 4242 (abcdef0)", file=sys.stderr)
        return 0
    begin(options)
    if options.die is not None:
        print("cause: the weights are \x1b[31mbroken\x1b[0m", file=sys.stderr, flush=True)
        return options.die
    time.sleep(options.bind_after)
    server = ThreadingHTTPServer((options.host, options.port), handler(options))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    while not (options.die_when and os.path.exists(options.die_when)):
        time.sleep(options.chat or 0.05)
        if options.chat:
            print(f"it is {time.monotonic()}", flush=True)
    print("cause: somebody asked for it", flush=True)
    return 3


if __name__ == "__main__":
    sys.exit(main())
