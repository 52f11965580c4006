"""`llmgw agent` as a process of its own, on a state folder of the test."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import yaml


class AgentProcess:
    """Started by `start`; its words are in `log`. Whoever starts it ends it."""

    def __init__(self, folder: Path, server: str, **settings: object) -> None:
        self.folder = folder
        self.state_dir = folder / "state"
        self.log = folder / "agent.log"
        self._config = folder / "agent.yaml"
        given = {"server": [server], "node": "n1", "state_dir": str(self.state_dir)} | settings
        self._config.write_text(yaml.safe_dump(given))
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def words(self) -> str:
        return self.log.read_text(errors="replace")

    async def start(self, *arguments: str, through: tuple[str, ...] = ()) -> None:
        """Start it, `through` a command that becomes it in the end."""
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *through,
                sys.executable,
                *("-m", "llmgw", "agent", "--config", str(self._config), *arguments),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=os.environ | {"LLAMA_ARG_PORT": "1"},
            )

    async def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send a signal and return the exit status."""
        assert self._process is not None
        self._process.send_signal(number)
        return await self.ended()

    async def ended(self) -> int:
        assert self._process is not None
        async with asyncio.timeout(30):
            return await self._process.wait()
