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
    *arguments: str,
    root: Path = ROOT,
    before: tuple[str, ...] = (),
    timeout_s: float = 60,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*before, "bash", root / "scripts" / "quickstart", *arguments],
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


def a_checkout(folder: Path) -> Path:
    """Make a checkout with this one's environment, and without a model."""
    folder.mkdir()
    for part in ("scripts", "locks"):
        shutil.copytree(ROOT / part, folder / part)
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / ".venv").symlink_to(ROOT / ".venv")
    return folder


def a_disk_with(folder: Path, free_kib: int) -> str:
    """Make a PATH whose df says that so much is free."""
    folder.mkdir()
    df = folder / "df"
    df.write_text(f"#!/bin/sh\necho Filesystem\necho /dev/sda1 9000000 1 {free_kib} 99% /home\n")
    df.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def test_a_disk_too_full_for_the_model_is_told_even_when_the_packages_are_there(tmp_path: Path) -> None:
    root = a_checkout(tmp_path / "checkout")

    done = quickstart(root=root, PATH=a_disk_with(tmp_path / "bin", 300_000))

    assert done.returncode == 1
    assert "needs 500 MB free for the model, found 300 MB on /home; free some" in done.stderr


def test_what_python_says_of_a_model_that_cannot_be_made_is_shown(tmp_path: Path) -> None:
    root = a_checkout(tmp_path / "checkout")
    # A folder in the place of the file: what is written there fails, for root too.
    (root / ".llmgw/models/gemma-3-270m-q4_k_m.gguf.part/x").mkdir(parents=True)

    done = quickstart(root=root)

    assert done.returncode == 1
    assert "the model could not be put together" in done.stderr
    assert "Error" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="a mount of its own needs root")
def test_a_checkout_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    root = a_checkout(tmp_path / "checkout")
    mounted = f"mount --make-rprivate / && mount --bind {root} {root} && mount -o remount,ro,bind {root}"
    before = ("unshare", "--mount", "sh", "-c", f'{mounted} && exec "$@"', "sh")

    done = quickstart(root=root, before=before)

    assert done.returncode == 1
    assert f"cannot write to {root}/.llmgw" in done.stderr
    assert "copy the checkout to a folder you may write" in done.stderr


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
