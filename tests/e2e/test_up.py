"""`llmgw up`: one command, from this environment and from the frozen program, to real tokens and back to nothing."""

import contextlib
import importlib.util
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
import yaml
from real.gemma import llama_server_path, model_path
from real.house import ROOT, House, wait_for

pytestmark = pytest.mark.slow

FROZEN = ROOT / "dist" / "llmgw"


def furnish(data: Path, engine: Path | None) -> None:
    data.mkdir()
    profile = {
        "name": "cpu",
        "engine": "llama.cpp",
        "weights": f"file://{model_path()}",
        "context": 512,
        "parallel": 1,
    }
    catalog = {"models": [{"name": "gemma-270m", "profiles": [profile]}]}
    listen = {"client": "127.0.0.1:0", "admin": "127.0.0.1:0", "agents": "127.0.0.1:0"}
    (data / "catalog.yaml").write_text(yaml.safe_dump(catalog))
    (data / "server.yaml").write_text(yaml.safe_dump({"listen": listen}))
    if engine is not None:
        (data / "agent.yaml").write_text(yaml.safe_dump({"engines": {"llama.cpp": str(engine)}}))


def start_up(house: House, data: Path) -> None:
    process = house.start("up", "up", "--data-dir", str(data))

    def listening() -> Any:
        assert process.poll() is None, house.log("up")
        with contextlib.suppress(FileNotFoundError):
            return (data / "api-key").exists() and json.loads((data / "listening.json").read_text())
        return None

    house.listening = wait_for("up listens", listening, 30)


def ask(house: House, key: str) -> str:
    with openai.OpenAI(base_url=house.url, api_key=key, max_retries=0, timeout=60) as client:
        answer = client.chat.completions.create(
            model="gemma-270m",
            messages=[{"role": "user", "content": "Say hello."}],
            max_tokens=8,
            temperature=0,
        )
    return answer.choices[0].message.content or ""


def leave(house: House) -> float:
    began = time.monotonic()
    code = house.kill("up", signal.SIGINT)
    assert code == 0, house.log("up")
    assert not house.marked(), house.log("up")
    return time.monotonic() - began


def test_up_prints_url_key_and_a_line_to_try_and_ctrl_c_leaves_nothing(
    make_house: Callable[..., House],
) -> None:
    house = make_house()
    data = house.root / "data"
    furnish(data, None)

    start_up(house, data)
    house.wait_ready("gemma-270m")
    key = (data / "api-key").read_text().strip()
    first = ask(house, key)
    leave(house)
    start_up(house, data)
    house.wait_ready("gemma-270m")
    second = ask(house, key)
    leave(house)

    said = house.log("up")
    assert first
    assert first == second
    assert stat.S_IMODE((data / "api-key").stat().st_mode) == 0o600
    assert f"{house.url}/completions" in said
    assert "WARNING" not in said
    assert f"Bearer {key}" in said or "api-key" in said
    assert "gemma-270m" in said


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the frozen program to a folder of its own."""
    if not (FROZEN / "llmgw").exists():
        if os.environ.get("CI") == "true":
            pytest.fail("no frozen program; scripts/build makes it")
        pytest.skip("no frozen program; scripts/build makes it")
    folder = tmp_path_factory.mktemp("elsewhere") / "llmgw"
    shutil.copytree(FROZEN, folder, symlinks=True)
    return folder


def hidden(folder: Path) -> tuple[str, ...]:
    """Run the frozen program where the checkout and its environment are not to be seen."""
    if os.geteuid() != 0:
        if os.environ.get("CI") == "true":
            pytest.fail("hiding the checkout needs root")
        pytest.skip("hiding the checkout (a mount namespace) needs root")
    script = f'mount --make-rprivate / && mount -t tmpfs none {ROOT} && exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh", str(folder / "llmgw"))


def engine_environment(folder: Path) -> Path:
    """Make a Python environment outside the checkout that holds the engine alone."""
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    subprocess.run([base, "-m", "venv", "--without-pip", folder], check=True)
    spec = importlib.util.find_spec("xllamacpp")
    assert spec is not None
    assert spec.origin is not None
    package = Path(spec.origin).parent
    [site] = folder.glob("lib/python*/site-packages")
    for found in package.parent.glob("xllamacpp*"):
        shutil.copytree(found, site / found.name)
    return folder


@pytest.mark.parametrize("form", ["llama-server", "environment"])
def test_the_frozen_program_answers_with_the_checkout_gone(
    form: str, frozen: Path, make_house: Callable[..., House], tmp_path: Path
) -> None:
    engine = llama_server_path() if form == "llama-server" else engine_environment(tmp_path / "engine")
    house = make_house(program=hidden(frozen))
    data = house.root / "data"
    furnish(data, Path(engine))

    start_up(house, data)
    [replica] = house.wait_ready("gemma-270m")
    text = ask(house, (data / "api-key").read_text().strip())
    environment = Path(f"/proc/{replica['pid']}/environ").read_text()
    leave(house)

    assert text
    assert str(frozen) not in environment
    assert "_PYI_" not in environment
    assert "LD_LIBRARY_PATH" not in environment


def test_the_frozen_program_proves_itself_whole(frozen: Path) -> None:
    done = subprocess.run([*hidden(frozen), "selftest"], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
