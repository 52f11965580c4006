"""A process of the bench that is asked things on its standard input and answers each with a line of JSON."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

BENCH = Path(__file__).parents[1]


class Child:
    """The parent's end; one question at a time."""

    def __init__(self, module: str, given: dict[str, Any], *, core: int, log: Path) -> None:
        """Start `python -m MODULE JSON`, on one core only; what it writes elsewhere goes to `log`."""
        with log.open("ab") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", module, json.dumps(given)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=os.environ | {"PYTHONPATH": str(BENCH), "LLMGW_BENCH_CORE": str(core)},
                text=True,
            )
        self._log = log
        self.said = self._answer()

    def ask(self, *words: Any) -> Any:
        """Ask something, and wait for the answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def end(self) -> None:
        """Let it end, by ending its input; kill it when it does not."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()
        self._process.wait(10)

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(10)
            raise RuntimeError(f"a process of the bench ended:\n{self._log.read_text()[-4000:]}")
        return json.loads(line)


async def answer_questions(answer: Callable[..., Awaitable[Any]]) -> None:
    """Be the child: hand each question to `answer` and write down what it returns, until the input ends."""
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        say(await answer(*json.loads(line)))


def say(what: Any) -> None:
    """Tell the parent something."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def stay_on_core() -> None:
    """Run on the core that the parent chose and on no other, as taskset does it."""
    os.sched_setaffinity(0, {int(os.environ["LLMGW_BENCH_CORE"])})
