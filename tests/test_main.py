import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow

# What a frozen start is, as far as the first lines of the program can see it.
SCRIPT = """
import json, os, sys
sys.frozen = FROZEN
sys.argv[1:] = ["--version"]
from llmgw.__main__ import main
main()
print(json.dumps({name: os.environ.get(name) for name in ("LD_LIBRARY_PATH", "_PYI_ARCHIVE_FILE", "KEPT")}))
"""


def environment_after_start(frozen: bool, environment: dict[str, str]) -> tuple[str, dict[str, str | None]]:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.replace("FROZEN", str(frozen))],
        env={"PATH": "/usr/bin:/bin", "KEPT": "yes"} | environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    version, environment_line = done.stdout.splitlines()
    return version, json.loads(environment_line)


BOOTLOADER = {
    "LD_LIBRARY_PATH": "/ours:/before",
    "LD_LIBRARY_PATH_ORIG": "/before",
    "_PYI_ARCHIVE_FILE": "/x",
}


def test_a_frozen_start_takes_the_bootloaders_variables_away_from_all_children() -> None:
    version, after = environment_after_start(True, BOOTLOADER)

    assert version.startswith("llmgw, version ")
    assert after == {"LD_LIBRARY_PATH": "/before", "_PYI_ARCHIVE_FILE": None, "KEPT": "yes"}


def test_any_other_start_leaves_the_environment_alone() -> None:
    _, after = environment_after_start(False, {"LD_LIBRARY_PATH": "/mine"})

    assert after == {"LD_LIBRARY_PATH": "/mine", "_PYI_ARCHIVE_FILE": None, "KEPT": "yes"}
