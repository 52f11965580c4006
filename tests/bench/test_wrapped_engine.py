"""A program that is no llama-server, as an engine of the benches."""

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from engines import wrapped_engine
from engines.wrapped_engine import command


def test_the_program_is_told_its_port_and_how_to_answer_in_its_own_words() -> None:
    given = ["--model", "w.gguf", "--alias", "left", "--port", "8123", "--metrics", "--delay", "100"]

    argv = command("/opt/engine", given)

    own, rest = argv[: argv.index("--")], argv[argv.index("--") + 1 :]
    assert own == ["/opt/engine", "--port", "8123", "--model", "left", "--delay-ms", "100"]
    assert rest == given


@pytest.mark.slow
def test_it_becomes_the_program_and_answers_for_its_version(tmp_path: Path) -> None:
    program = tmp_path / "engine"
    program.write_text('#!/bin/sh\necho "$$ $*"\n')
    program.chmod(0o755)
    shim = [sys.executable, "-I", str(wrapped_engine.__file__), str(program)]

    with subprocess.Popen([*shim, "--port", "1"], stdout=subprocess.PIPE, text=True) as process:
        said, _ = process.communicate(timeout=20)
    version = subprocess.run([*shim, "--version"], capture_output=True, text=True, timeout=20, check=True)

    assert said == f"{process.pid} --port 1 -- --port 1\n"
    assert "(build 11434" in version.stderr
