"""A process that looks at the GPUs once for every line it is told, with the real bindings of NVML."""

import os
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from llmgw.agent.discovery.gpus.sighting import Sighting

SCRIPT = """
import asyncio, sys
from pathlib import Path
import msgspec
from llmgw.agent.discovery.gpus.probe import GpuProbe

async def main(state_dir, root, limit_s):
    probe = GpuProbe(Path(state_dir), set, root=Path(root))
    for _ in sys.stdin:
        print(msgspec.json.encode(await probe.sighting(float(limit_s))).decode(), flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


class GpuLooker:
    """A context manager; its environment decides which driver it finds."""

    def __init__(
        self, environment: dict[str, str], *, state_dir: Path, root: Path = Path("/"), limit_s: float = 20.0
    ) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, str(state_dir), str(root), str(limit_s)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | environment,
            text=True,
        )

    def look(self) -> Sighting:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return msgspec.json.decode(self._process.stdout.readline(), type=Sighting)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()
