"""The frozen build keeps its hands off the tracked build/ folder."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


def test_the_spec_refuses_to_work_in_the_tracked_folder(tmp_path: Path) -> None:
    inside = ROOT / "build" / "never"

    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "PyInstaller",
            "--workpath",
            inside,
            "--distpath",
            tmp_path,
            "build/pyinstaller.spec",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    for left in (inside / "pyinstaller", inside):
        if left.is_dir():
            left.rmdir()

    assert done.returncode != 0
    assert "build/ is tracked: run scripts/build" in done.stderr
