"""A whole llmgw on this machine: server and agents as processes, each with its own folders and ports.

Every process carries a mark of the house in its environment, engines included, so that closing the house
finds and ends all of them, and nothing else.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
MARK = "LLMGW_TEST_HOUSE"


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
    """Poll until `condition` gives something true and return that; name `what` when it never does."""
    ends = time.monotonic() + seconds
    last: Any = None
    while time.monotonic() < ends:
        last = condition()
        if last:
            return last
        time.sleep(0.05)
    raise AssertionError(f"not within {seconds:g} s: {what} (last: {last!r})")


class House:
    """One server and any number of agents."""

    def __init__(self, root: Path, program: tuple[str, ...] = (sys.executable, "-m", "llmgw")) -> None:
        self.root = root
        self.program = program
        self.mark = uuid.uuid4().hex
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.listening: dict[str, Any] = {}
        # What goes before the program's own command line, by the name of a process, and what it inherits.
        self.before: dict[str, tuple[str, ...]] = {}
        self.descriptors: dict[str, tuple[int, ...]] = {}

    # processes

    def environment(self) -> dict[str, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("LLMGW_") or k == "LLMGW_TEST_CACHE"}
        return kept | {MARK: self.mark}

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.root / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [*self.before.get(name, ()), *self.program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment(),
                cwd=self.root,
                pass_fds=self.descriptors.get(name, ()),
            )
        self.processes[name] = process
        return process

    def log(self, name: str) -> str:
        return (self.root / f"{name}.log").read_text(errors="replace")

    def start_server(self, **settings: Any) -> None:
        data = self.root / "server"
        listen = {name: self.listening.get(name, "127.0.0.1:0") for name in ("client", "admin", "agents")}
        listen |= settings.pop("listen", {})
        config = {"data_dir": str(data), "listen": listen} | settings
        path = self.root / "server.yaml"
        path.write_text(yaml.safe_dump(config))
        (data / "listening.json").unlink(missing_ok=True)
        process = self.start("server", "server", "--config", str(path))

        def listening() -> Any:
            assert process.poll() is None, self.log("server")
            with contextlib.suppress(FileNotFoundError):
                return json.loads((data / "listening.json").read_text())
            return None

        self.listening = wait_for("the server listens", listening, 30)

    def start_agent(self, name: str, *options: str, **settings: Any) -> None:
        config = {
            "server": [self.listening["agents"]],
            "node": name,
            "state_dir": str(self.root / name),
        } | settings
        path = self.root / f"{name}.yaml"
        path.write_text(yaml.safe_dump(config))
        self.start(name, "agent", "--config", str(path), *options)

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> int:
        process = self.processes.pop(name)
        process.send_signal(number)
        return process.wait(30)

    # what a person does

    def ctl(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [*self.program, "ctl", "--server", f"http://{self.listening['admin']}", *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment(),
            cwd=self.root,
            check=False,
        )
        assert done.returncode == code, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def json(self, *arguments: str) -> Any:
        return json.loads(self.ctl(*arguments, "--json").stdout)

    def apply(self, catalog: Any, *options: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        path = self.root / "catalog.yaml"
        path.write_text(catalog if isinstance(catalog, str) else yaml.safe_dump(catalog, sort_keys=False))
        return self.ctl("apply", "-f", str(path), *options, code=code)

    def replicas(self, model: str | None = None) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self.json("replicas")
        return [row for row in rows if model is None or row["model"] == model]

    def wait_ready(self, model: str, count: int = 1, seconds: float = 90) -> list[dict[str, Any]]:
        def ready() -> Any:
            rows = self.replicas(model)
            return len(rows) == count and all(row["phase"] == "ready" for row in rows) and rows

        found: list[dict[str, Any]] = wait_for(f"{count} ready replicas of {model}", ready, seconds)
        return found

    def node(self, name: str) -> dict[str, Any]:
        row: dict[str, Any] = next((n for n in self.json("nodes") if n["id"] == name), {})
        return row

    def wait_node(self, name: str, state: str, seconds: float = 30) -> dict[str, Any]:
        def there() -> Any:
            row = self.node(name)
            return row.get("state") == state and row

        found: dict[str, Any] = wait_for(f"node {name} is {state}", there, seconds)
        return found

    @property
    def url(self) -> str:
        return f"http://{self.listening['client']}/v1"

    # the end

    def marked(self) -> list[int]:
        """Find every process of this house that still lives (zombies have no environment any more)."""
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                with contextlib.suppress(OSError):
                    if f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
        return found

    def close(self) -> None:
        for process in self.processes.values():
            process.terminate()
        for process in self.processes.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
        for pid in self.marked():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for("every process of the house is gone", lambda: not self.marked(), 20)


def get_json(url: str) -> Any:
    """Fetch JSON from an engine's own port."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        return json.load(answer)
