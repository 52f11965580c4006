"""What scripts/quickstart says when it cannot begin, and that --check does all of it (first-minute experience)."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TOOLS = (
    "bash",
    "dirname",
    "awk",
    "df",
    "sed",
    "cat",
    "cut",
    "sha256sum",
    "basename",
    "readlink",
    "mktemp",
    "rm",
    "tail",
)


def quickstart(
    *arguments: str, timeout_s: float = 60, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", ROOT / "scripts" / "quickstart", *arguments],
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def folder_of_tools(folder: Path) -> str:
    """Make a PATH that has the plain tools of a small machine and nothing else."""
    folder.mkdir()
    for tool in TOOLS:
        found = shutil.which(tool)
        assert found is not None
        (folder / tool).symlink_to(found)
    return str(folder)


def test_all_that_is_missing_is_named_at_once_with_how_to_install_it(tmp_path: Path) -> None:
    done = quickstart(PATH=folder_of_tools(tmp_path / "bin"), PYTHON="")

    assert done.returncode == 1
    assert "needs git python3 python3-venv; Debian: apt-get install git python3 python3-venv" in done.stderr


def test_a_python_that_is_too_old_is_named_with_what_is_wanted(tmp_path: Path) -> None:
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    old.chmod(0o755)

    done = quickstart(PYTHON=str(old))

    assert done.returncode == 1
    assert f"needs Python 3.11 or later, found {old}: Python 3.9.2" in done.stderr


def test_a_python_without_venv_is_named_with_the_package_that_has_it(tmp_path: Path) -> None:
    bare = tmp_path / "python3.11"
    bare.write_text(
        '#!/bin/sh\ncase "$*" in *ensurepip*) exit 1 ;; *--version*) echo "Python 3.11.2" ;; esac\nexit 0\n'
    )
    bare.chmod(0o755)

    done = quickstart(PYTHON=str(bare))

    assert done.returncode == 1
    assert "Python 3.11.2 has no venv module; Debian: apt-get install python3.11-venv" in done.stderr


@pytest.mark.timeout(600)
def test_check_asks_both_questions_and_leaves_no_process(tmp_path: Path) -> None:
    done = quickstart("--check", timeout_s=550, TMPDIR=str(tmp_path))

    assert done.returncode == 0, done.stdout + done.stderr
    assert "streamed: " in done.stdout
    assert "plain: " in done.stdout
    assert "completion tokens" in done.stdout
    assert "no process is left" in done.stdout
    assert list(tmp_path.iterdir()) == []
