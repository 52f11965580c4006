"""A fake NVIDIA driver: its library, compiled here, and the text file that says what it answers."""

import shutil
import subprocess
from pathlib import Path

from real.requirement import missing

SOURCE = Path(__file__).with_name("fake_nvml.c")
NAME = "libnvidia-ml.so.1"
GIB = 1024**3

H100 = {"name": "NVIDIA H100 80GB HBM3", "total": 80 * GIB, "free": 79 * GIB, "utilization": 3}
"""A GPU that works and that nobody uses."""


class FakeDriver:
    """Compiled into a folder of the test; who is started with `environment` finds it as the machine's own."""

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc") or shutil.which("gcc") or missing("there is no C compiler (cc)")
        self.folder = folder
        self._answers = folder / "answers"
        library = folder / NAME
        options = ("-shared", "-fPIC", "-Wall", "-Werror", "-O1", f"-Wl,-soname,{NAME}", "-D_DEFAULT_SOURCE")
        subprocess.run(
            [compiler, *options, str(SOURCE), "-o", str(library)], check=True, timeout=60, text=True
        )

    @property
    def environment(self) -> dict[str, str]:
        return {"LD_LIBRARY_PATH": str(self.folder), "FAKE_NVML": str(self._answers)}

    def says(self, *gpus: dict[str, object], **whole: object) -> None:
        """Let it answer so from the next call on; keys are those of the library's source."""
        given: dict[str, object] = {"driver": "570.124.06", "cuda": 12080, "count": len(gpus)} | whole
        for number, gpu in enumerate(gpus):
            given |= {f"{number}.{key}": value for key, value in gpu.items()}
        text = "".join(f"{key}={value}\n" for key, value in given.items())
        # Whole or not at all: the library may be reading it at this moment.
        unfinished = self.folder / "answers.new"
        unfinished.write_text(text)
        unfinished.replace(self._answers)
