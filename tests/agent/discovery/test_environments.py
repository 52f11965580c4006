"""Environments of vLLM and SGLang that agent.yaml names."""

import sys
import venv
from pathlib import Path

import pytest

from llmgw.agent.discovery.engines import EngineProbe
from llmgw.agent.discovery.environments import describe_environment, parse_package_version
from llmgw.core.fleet.hardware import EngineInstall


def environment(folder: Path, *, script: bool = True) -> Path:
    """An environment with a python and, if it is to have it, vLLM's script."""
    venv.EnvBuilder(symlinks=True).create(folder)
    if script:
        (folder / "bin" / "vllm").write_text("")
    return folder


@pytest.mark.parametrize("named", ["", "bin/python", "bin/vllm"])
def test_an_environment_is_named_by_its_folder_its_python_or_the_engines_script(
    tmp_path: Path, named: str
) -> None:
    folder = environment(tmp_path / "env")

    found = describe_environment("vllm", str(folder / named))

    assert found == EngineInstall(engine="vllm", form="vllm", path=str(folder / "bin" / "python"))


def test_an_environment_without_the_engine_says_what_is_missing(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env", script=False)

    found = describe_environment("vllm", str(folder))

    assert found.problem == f"{folder} is no Python environment with vllm: there is no {folder}/bin/vllm"


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    found = describe_environment("sglang", str(tmp_path / "none"))

    assert found.problem == f"there is no {tmp_path}/none; correct `engines` in agent.yaml"


@pytest.mark.parametrize(
    ("said", "version"),
    [("version: 0.33.0\n", "0.33.0"), ("version: 0.5.23rc1\n", "0.5.23rc1"), ("no\n", None)],
)
def test_a_version_is_read_from_what_the_environment_says(said: str, version: str | None) -> None:
    assert parse_package_version(said) == version


def _probe(folder: Path) -> EngineProbe:
    return EngineProbe({"vllm": str(folder)}, launcher=Path("/none"), known=("vllm",), own=None)


@pytest.mark.slow
async def test_the_version_is_looked_up_without_importing_the_package(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env")
    packages = folder / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    (packages / "vllm-0.33.0.dist-info").mkdir()
    (packages / "vllm-0.33.0.dist-info" / "METADATA").write_text("Name: vllm\nVersion: 0.33.0\n")
    (packages / "vllm.py").write_text("raise SystemExit('imported')")

    [install] = await _probe(folder).installs()

    assert (install.version, install.problem) == ("0.33.0", None)


@pytest.mark.slow
async def test_an_environment_whose_package_is_gone_says_so(tmp_path: Path) -> None:
    folder = environment(tmp_path / "env")

    [install] = await _probe(folder).installs()

    assert install.problem == (
        f"{folder}/bin/python has no package vllm that tells its version: "
        "importlib.metadata.PackageNotFoundError: No package metadata was found for vllm"
    )
