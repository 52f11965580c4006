"""The server as a process of its own: signals, and what is left behind."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

CONFIG = 'listen: {client: "127.0.0.1:0", admin: "127.0.0.1:0", agents: "127.0.0.1:0"}\n'


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_in_order_and_without_an_error(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "server.yaml").write_text(CONFIG)
    announced = tmp_path / "data" / "listening.json"
    argv = [sys.executable, "-m", "llmgw", "server", "--config", "server.yaml", "--data-dir", "data"]

    with subprocess.Popen(argv, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 30
        while not announced.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        said = json.loads(announced.read_text())
        process.send_signal(number)
        _, log = process.communicate(timeout=15)

    assert said["pid"] == process.pid
    assert process.returncode == 0, log
    assert "llmgw.server.main: ended" in log
    assert "Traceback" not in log
    assert not announced.exists()
