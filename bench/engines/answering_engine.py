"""An engine that answers at once and always the same: llama-server's command line, without a model behind it.

The answer to every chat is the numbers from 0 on, one a chunk, so that whoever reads it can tell a lost, a doubled and
a changed chunk. Flags of llama-server that it does not know are ignored. Standard library only; its own switches:

    --chunks N          how many numbers when the request has no max_tokens (default 8)
    --interval MS       time between two chunks of a stream (default 0)
    --delay MS          time before the first byte of an answer (default 0)
    --load S            503 until then
    --never-ready       503 for ever
    --die STATUS        ends at once, behind some words
    --die-after S       ends with status 3 so long after it got ready
    --ignore-term       SIGTERM does nothing
    --fork FILE         has a child that ignores SIGTERM; its pid is written to FILE
    --hold FILE         writes its port to FILE.port and does not listen before FILE.PORT exists
"""

import argparse
import asyncio
import contextlib
import errno
import json
import os
import signal
import subprocess
import sys
import time

CHILD = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
HELD_AT_MOST_S = 60.0


def options(arguments):
    """Read the command line; what it does not know is llama-server's and ignored."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--alias", default="model")
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--chunks", type=int, default=8)
    parser.add_argument("--interval", type=float, default=0.0)
    parser.add_argument("--delay", type=float, default=0.0)
    parser.add_argument("--load", type=float, default=0.0)
    parser.add_argument("--never-ready", action="store_true")
    parser.add_argument("--die", type=int)
    parser.add_argument("--die-after", type=float)
    parser.add_argument("--ignore-term", action="store_true")
    parser.add_argument("--fork")
    parser.add_argument("--hold")
    return parser.parse_known_args(arguments)[0]


def say(text):
    """Write a line of output; a full disk is no reason to end."""
    with contextlib.suppress(OSError):
        os.write(2, f"{text}\n".encode())


def part(number):
    """Make the text of one chunk."""
    return f"{number} "


class Engine:
    """One engine: its options, how many requests it serves, and since when it is ready."""

    def __init__(self, given):
        self._given = given
        self._began = time.monotonic()
        self._slots = asyncio.Semaphore(given.parallel)
        self._busy = 0
        self._served = 0

    @property
    def is_loading(self):
        """Tell whether it does not answer yet."""
        return self._given.never_ready or time.monotonic() - self._began < self._given.load

    async def serve(self, reader, writer):
        """Answer the requests of one connection until it ends."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
            while await self._answer_one(reader, writer):
                pass
        writer.close()

    async def _answer_one(self, reader, writer):
        line = await reader.readline()
        if not line:
            return False
        method, path, _ = line.decode("latin-1").split(" ", 2)
        length = 0
        while (header := await reader.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode("latin-1").partition(":")
            if name.lower() == "content-length":
                length = int(value)
        body = await reader.readexactly(length)
        await self._route(method, path.partition("?")[0], body, writer)
        await writer.drain()
        return True

    async def _route(self, method, path, body, writer):
        if self.is_loading:
            error = {"error": {"code": 503, "message": "Loading model", "type": "unavailable_error"}}
            return send(writer, 503, error)
        if (method, path) == ("GET", "/health"):
            return send(writer, 200, {"status": "ok"})
        if (method, path) == ("GET", "/slots"):
            slots = [{"id": i, "is_processing": i < self._busy} for i in range(self._given.parallel)]
            return send(writer, 200, slots)
        if (method, path) == ("POST", "/v1/chat/completions"):
            return await self._chat(json.loads(body), writer)
        return send(
            writer, 404, {"error": {"code": 404, "message": "File Not Found", "type": "not_found_error"}}
        )

    async def _chat(self, asked, writer):
        async with self._slots:
            self._busy += 1
            self._served += 1
            number = self._served
            say(f"slot launch: task {number}")
            try:
                count = asked.get("max_tokens") or self._given.chunks
                await asyncio.sleep(self._given.delay / 1000)
                if asked.get("stream"):
                    await self._stream(asked, count, writer)
                else:
                    send(writer, 200, self._whole(count))
            finally:
                self._busy -= 1
                say(f"slot release: task {number}")

    def _whole(self, count):
        text = "".join(map(part, range(count)))
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(count)}

    async def _stream(self, asked, count, writer):
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        head = self._head("chat.completion.chunk")
        for number in range(count):
            if number and self._given.interval:
                await asyncio.sleep(self._given.interval / 1000)
            choice = {"index": 0, "finish_reason": None, "delta": {"content": part(number)}}
            event(writer, {**head, "choices": [choice]})
            await writer.drain()
        event(writer, {**head, "choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]})
        if (asked.get("stream_options") or {}).get("include_usage"):
            event(writer, {**head, "choices": [], "usage": usage(count)})
        chunk(writer, b"data: [DONE]\n\n")
        writer.write(b"0\r\n\r\n")

    def _head(self, kind):
        return {"id": "chatcmpl-1", "object": kind, "created": 1, "model": self._given.alias}


def usage(count):
    """Make the usage of an answer."""
    return {"prompt_tokens": 4, "completion_tokens": count, "total_tokens": count + 4}


def send(writer, status, body):
    """Write a whole answer."""
    raw = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(raw)}\r\n\r\n"
    writer.write(head.encode() + raw)


def event(writer, value):
    """Write one event of a stream."""
    chunk(writer, b"data: " + json.dumps(value).encode() + b"\n\n")


def chunk(writer, raw):
    """Write one chunk of a chunked body."""
    writer.write(f"{len(raw):x}\r\n".encode() + raw + b"\r\n")


def hold(given):
    """Tell the port and wait, so that somebody can take it first."""
    with open(f"{given.hold}.new", "w", encoding="ascii") as file:
        file.write(str(given.port))
    os.replace(f"{given.hold}.new", f"{given.hold}.port")
    ends = time.monotonic() + HELD_AT_MOST_S
    while not os.path.exists(f"{given.hold}.{given.port}") and time.monotonic() < ends:
        time.sleep(0.02)


async def run(given):
    """Serve until ended by a signal or by a switch; returns the exit status."""
    engine = Engine(given)
    try:
        await asyncio.start_server(engine.serve, given.host, given.port)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        say(f"main: couldn't bind HTTP server socket, hostname: {given.host}, port: {given.port}")
        return 1
    say(f"main: server is listening on http://{given.host}:{given.port}")
    if given.die_after is None:
        await asyncio.Event().wait()
    await asyncio.sleep(given.load + given.die_after)
    say("CUDA error: an illegal memory access was encountered")
    return 3


def main(arguments):
    """Be llama-server."""
    given = options(arguments)
    if given.version:
        print("version: 0.6.0-dev (build 11434, commit 0000000)", file=sys.stderr)
        return 0
    say(f"build: 11434; loading {given.alias}")
    if given.fork:
        child = subprocess.Popen([sys.executable, "-c", CHILD])
        with open(given.fork, "w", encoding="ascii") as file:
            file.write(str(child.pid))
    if given.die is not None:
        say("error loading model: invalid magic characters: 'nope', expected 'GGUF'")
        return given.die
    # As llama-server does while nobody is served: SIGTERM ends it at once; streams are cut.
    signal.signal(signal.SIGTERM, signal.SIG_IGN if given.ignore_term else lambda *_: os._exit(0))
    if given.hold:
        hold(given)
    return asyncio.run(run(given))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
