import subprocess
import sys

import pytest
from click.testing import CliRunner

from llmgw import __version__
from llmgw.cli import PROGRAMS, cli

# What a lazy command line must not have imported before a program was chosen.
HEAVY = {"llmgw.server", "llmgw.agent", "llmgw.ctl", "litestar", "sqlalchemy", "websockets", "uvicorn"}


def loaded_by(*arguments: str) -> set[str]:
    """Run the program with `arguments` in a new interpreter; returns the modules it ended with."""
    script = "import sys, atexit\natexit.register(lambda: print('MODULES', *sys.modules))\n"
    script += f"sys.argv[1:] = {list(arguments)!r}\nfrom llmgw.__main__ import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.rpartition("MODULES ")[2].split())


def test_help_names_every_program_with_its_summary() -> None:
    shown = CliRunner().invoke(cli, ["--help"])

    assert shown.exit_code == 0
    for name, program in PROGRAMS.items():
        assert name in shown.output
        assert program.summary in shown.output


def test_an_unknown_program_is_a_usage_error() -> None:
    shown = CliRunner().invoke(cli, ["serve"])

    assert shown.exit_code == 2
    assert "No such command 'serve'" in shown.output


def test_the_version_is_printed_by_the_command_line_too() -> None:
    shown = CliRunner().invoke(cli, ["--version"])

    assert shown.output == f"llmgw, version {__version__}\n"


def test_completion_offers_programs_and_options() -> None:
    context = cli.make_context("llmgw", [], resilient_parsing=True)

    names = [item.value for item in cli.shell_complete(context, "s")]
    options = [item.value for item in cli.shell_complete(context, "--")]

    assert names == ["server", "selftest"]
    assert "--version" in options


@pytest.mark.slow
def test_the_version_costs_no_command_line_and_the_help_no_program() -> None:
    version, shown = loaded_by("--version"), loaded_by("--help")

    assert "click" not in version
    assert "click" in shown
    assert not HEAVY & shown
