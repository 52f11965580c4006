"""usage: quickstart_check.py DATA_DIR LLMGW   Start `llmgw up`, ask it two questions, stop it; nothing may be left.

DATA_DIR holds a catalog.yaml with the model gemma-270m, and is removed in the end. Ends with 0 when all of it
went well.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from pathlib import Path

import openai

MODEL = "gemma-270m"
MARK = "LLMGW_QUICKSTART_CHECK"
QUESTION = [{"role": "user", "content": "Say hello in one short sentence."}]
LISTEN_S = 60
LOAD_S = 180
STOP_S = 40
TRIES = 3


class Failed(Exception):
    """The check failed; the message says what was wanted and what came."""


def say(text):
    """Tell the person who waits."""
    print(f"quickstart: {text}", flush=True)


class Up:
    """`llmgw up` on ports of its own; every process it starts carries a mark in its environment."""

    def __init__(self, data, program):
        self.data = data
        self.log = data / "up.log"
        self.mark = uuid.uuid4().hex
        listen = dict.fromkeys(("client", "admin", "agents"), "127.0.0.1:0")
        (data / "server.yaml").write_text(json.dumps({"listen": listen}))
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [program, "up", "--data-dir", str(data)],
                env={**os.environ, MARK: self.mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait(self, what, limit_s, look):
        """Call `look` until it returns something; fails when `up` ends or the time is over."""
        deadline = time.monotonic() + limit_s
        last = ""
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failed(f"llmgw up ended with status {self.process.returncode} before {what}")
            found, last = look()
            if found:
                return found
            time.sleep(0.2)
        raise Failed(f"no sign of {what} within {limit_s} s; last: {last}")

    def address(self):
        """Read where clients are served, once it is written."""

        def look():
            try:
                place = json.loads((self.data / "listening.json").read_text())["client"]
                return (place, (self.data / "api-key").read_text().strip()), ""
            except (OSError, ValueError, KeyError) as error:
                return None, f"{type(error).__name__}: {error}"

        return self.wait("where it listens and its API key", LISTEN_S, look)

    def hopeless(self):
        """Say why the model cannot come up by itself, as far as the admin API tells; None while it may."""
        try:
            admin = json.loads((self.data / "listening.json").read_text())["admin"]
            nodes, replicas = (
                json.load(urllib.request.urlopen(f"http://{admin}/api/v1/{what}", timeout=10))
                for what in ("nodes", "replicas")
            )
        except (OSError, ValueError, KeyError):
            return None
        for one in replicas:
            if one["model"] == MODEL and one["phase"] == "failed" and one["failures"] >= TRIES:
                last = "".join(f"\n  {line}" for line in one["tail"][-10:])
                return f"{MODEL} failed {one['failures']} times: {one['reason']}{last}"
        for node in nodes:
            engines = node["engines"]
            if engines is not None and all(engine["problem"] for engine in engines):
                found = "; ".join(engine["problem"] for engine in engines) or "none was found"
                return f"no engine works here: {found}"
        return None

    def left(self):
        """Find every process that carries the mark; the dead have no environment any more."""
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and f"{MARK}={self.mark}".encode() in (
                    entry / "environ"
                ).read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def stop(self):
        """End it as Ctrl-C does; returns what was wrong with its end, or None."""
        began = time.monotonic()
        wrong = None
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                status = self.process.wait(STOP_S)
                wrong = f"llmgw up ended with status {status}, wanted 0" if status else None
            except subprocess.TimeoutExpired:
                wrong = f"llmgw up still ran {STOP_S} s after Ctrl-C"
        left = self.left()
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()
        if left:
            return f"processes were left and had to be killed: {left}" + (f"; {wrong}" if wrong else "")
        if wrong is None:
            say(f"stopped after {time.monotonic() - began:.1f} s; no process is left")
        return wrong


def usage_line(usage):
    """Show the numbers of tokens that an answer cost."""
    if usage is None or not usage.completion_tokens:
        raise Failed(f"the answer came without its usage: {usage}")
    return f"{usage.prompt_tokens} prompt tokens, {usage.completion_tokens} completion tokens"


def stream_answer(client):
    """Ask for a stream; returns its text and usage."""
    parts, usage = [], None
    chunks = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=24, stream=True, stream_options={"include_usage": True}
    )
    for chunk in chunks:
        usage = chunk.usage or usage
        parts += [choice.delta.content for choice in chunk.choices if choice.delta.content]
    if len(parts) < 2:
        raise Failed(f"the stream came in {len(parts)} parts, wanted several: {parts}")
    return "".join(parts), usage


def plain_answer(client):
    """Ask for a whole answer; returns its text and usage."""
    answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=24)
    return answer.choices[0].message.content, answer.usage


def wait_for_model(up, client):
    """Ask for one token until it comes: before, the service says what it waits for."""

    def look():
        try:
            client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=1)
            return True, ""
        except (openai.APIStatusError, openai.APIConnectionError) as error:
            if reason := up.hopeless():
                raise Failed(reason) from error
            return None, str(error)

    up.wait(f"an answer of {MODEL}", LOAD_S, look)


def ask(up):
    """Ask both questions and show what came."""
    place, key = up.address()
    say(f"listening on http://{place}/v1; waiting for {MODEL}")
    with openai.OpenAI(base_url=f"http://{place}/v1", api_key=key, max_retries=0, timeout=60) as client:
        wait_for_model(up, client)
        for name, answer in (("streamed", stream_answer), ("plain", plain_answer)):
            text, usage = answer(client)
            if not text:
                raise Failed(f"the {name} answer is empty")
            say(f"{name}: {text!r} ({usage_line(usage)})")


def main():
    """Run the check; returns the exit status."""
    data, program = Path(sys.argv[1]).resolve(), sys.argv[2]
    # Whoever ends the check early must not be left with a server: these become exits, which stop it first.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return check(data, program)
    finally:
        shutil.rmtree(data, ignore_errors=True)


def check(data, program):
    """Start, ask, stop; returns the exit status."""
    up = Up(data, program)
    problems = []
    try:
        ask(up)
    except (Failed, openai.OpenAIError) as error:
        problems.append(f"{error}" or type(error).__name__)
    finally:
        problem = up.stop()
    problems += [problem] if problem else []
    if problems:
        for problem in problems:
            say(f"failed: {problem}")
        print(
            "quickstart: the end of what llmgw up said:",
            *up.log.read_text(errors="replace").splitlines()[-40:],
            sep="\n",
        )
        return 1
    say("ok")
    return 0


if __name__ == "__main__":
    sys.exit(main())
