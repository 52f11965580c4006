"""Engines that agent.yaml names, and what is wrong with them."""

import importlib.util
import sys
import venv
from pathlib import Path

import pytest

from llmgw.agent.discovery.engines import EngineProbe, describe, own_environment, parse_version
from llmgw.core.fleet.hardware import EngineInstall

LAUNCHER = Path(__file__).parents[3] / "llmgw" / "agent" / "launchers" / "llama_server.py"


@pytest.mark.parametrize(
    ("said", "version"),
    [
        (
            "version: 0.6.0-dev (build 11434, commit abc1234)\nbuilt with GNU 12.2.0 for Linux x86_64\n",
            "b11434",
        ),
        ("ggml_cuda_init: found 1 devices\nversion: 9837 (b3fed31b9)\nbuilt with cc\n", "b9837"),
        ("version: xllamacpp 2026.10.11549 (build 11549, commit unknown)\n", "b11549"),
        ("version: unknown\n", None),
        ("", None),
    ],
)
def test_a_version_is_read_in_either_format(said: str, version: str | None) -> None:
    assert parse_version(said) == version


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def probe(named: Path | str, *, engine: str = "llama.cpp", limit_s: float = 20.0) -> EngineProbe:
    return EngineProbe(
        {engine: str(named)}, launcher=LAUNCHER, known=("llama.cpp",), own=None, limit_s=limit_s
    )


async def only(probe: EngineProbe) -> EngineInstall:
    [install] = await probe.installs()
    return install


@pytest.mark.slow
async def test_a_program_is_run_and_its_version_kept(tmp_path: Path) -> None:
    path = program(tmp_path / "llama-server", "echo 'version: 9837 (b3fed31b9)' >&2")

    install = await only(probe(path))

    assert install == EngineInstall(
        engine="llama.cpp", form="llama-server", path=str(path), version="b9837", problem=None
    )


@pytest.mark.slow
@pytest.mark.parametrize("inside", ["llama-server", "bin/llama-server"])
async def test_a_folder_stands_for_the_program_in_it(tmp_path: Path, inside: str) -> None:
    path = program(tmp_path / inside, "echo 'version: 9837 (b3fed31b9)'")

    install = await only(probe(tmp_path))

    assert (install.path, install.version) == (str(path), "b9837")


@pytest.mark.slow
async def test_an_environment_is_run_by_its_own_python_which_is_not_resolved(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    program(python, f'exec {sys.executable} "$@"')

    for named in (tmp_path, python):
        install = await only(probe(named))
        assert (install.form, install.path, install.problem) == ("xllamacpp", str(python), None)
        assert (install.version or "").startswith("b")


@pytest.mark.slow
async def test_an_environment_may_lie_in_a_folder_whose_name_is_not_ascii(tmp_path: Path) -> None:
    folder = tmp_path / "Büro und Leer"
    venv.create(folder, with_pip=False)
    [site] = folder.glob("lib/python*/site-packages")
    spec = importlib.util.find_spec("xllamacpp")
    assert spec is not None
    assert spec.origin is not None
    (site / "here.pth").write_text(f"{folder}\n{Path(spec.origin).parents[1]}\n", encoding="utf-8")

    install = await only(probe(folder))

    assert install.problem is None
    assert (install.version or "").startswith("b")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "echo 'error while loading shared libraries: libgomp.so.1' >&2; exit 127",
            "ended with status 127: error while loading shared libraries: libgomp.so.1",
        ),
        ("kill -ILL $$", "was killed by signal 4 (SIGILL): no output"),
        ("echo hello", "named no version; is it llama-server? Its last words: hello"),
        ("exec sleep 60", "did not answer --version within 0.5 s"),
        ("sleep 60 &\nexit 0", "named no version; is it llama-server? Its last words: no output"),
    ],
)
async def test_a_program_that_does_not_run_says_why(tmp_path: Path, text: str, words: str) -> None:
    path = program(tmp_path / "llama-server", text)

    install = await only(probe(path, limit_s=0.5))

    assert words in (install.problem or "")
    assert install.version is None


async def test_a_file_that_is_not_there_or_no_program_says_so(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")

    absent = await only(probe(tmp_path / "none"))
    text = await only(probe(tmp_path / "text"))
    folder = await only(probe(tmp_path))

    assert "there is no file" in (absent.problem or "")
    assert "cannot be started: Permission denied" in (text.problem or "")
    assert "holds neither llama-server nor a Python environment" in (folder.problem or "")


async def test_an_engine_that_this_version_does_not_know_is_listed_with_that_reason(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("")

    install = await only(probe(tmp_path / "x", engine="other"))

    assert install.problem == "this agent knows no engine 'other', only llama.cpp"


def test_the_environment_of_llmgw_itself_is_an_engine_when_it_has_xllamacpp() -> None:
    own = own_environment()

    assert own is not None
    assert (own.form, own.path) == ("xllamacpp", sys.executable)


def test_a_python_of_some_version_is_an_environment(tmp_path: Path) -> None:
    (tmp_path / "python3.11").write_text("")

    assert describe("llama.cpp", str(tmp_path / "python3.11")).form == "xllamacpp"
