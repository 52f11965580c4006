"""NVIDIA GPUs through the nvidia-smi program, where its library cannot be used from here.

Drivers differ in the fields they know: one that is not known is asked for no more, rows may be shorter than
what was asked, and utilisation, which parts in slices refuse, is asked for last.
"""

import os
import re
import shutil
import subprocess

import msgspec

from llmgw.agent.discovery.gpus.names import gpu_class, shares_main_memory
from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.core.fleet.hardware import Gpu, GpuProcess
from llmgw.core.units import MIB
from llmgw.runtime.subprocess import clean_environment

PROGRAM = "nvidia-smi"
LIMIT_S = 10.0

FIELDS = (
    *("index", "uuid", "name", "memory.total", "memory.free", "driver_version"),
    *("mig.mode.current", "ecc.mode.current", "ecc.errors.uncorrected.volatile.total", "utilization.gpu"),
)
HOLDER_FIELDS = ("gpu_uuid", "pid", "used_memory")
"""What is asked of processes; their names come from the kernel."""

_UNKNOWN_FIELD = re.compile(r'Field "([^"]+)" is not a valid field')
_UNTOLD = re.compile(r"\[?(n/?a|not supported|unknown error|insufficient permissions)\]?|", re.IGNORECASE)
_LOST = re.compile(r"\[?(gpu is lost|gpu requires reset|gpu requires restart)\]?", re.IGNORECASE)
_WHOLE = re.compile(r"GPU \d+: .*\(UUID: (\S+)\)")
_SLICE = re.compile(r"\s+(MIG \S+)\s+Device\s+\d+: \(UUID: (MIG-\S+)\)")

Row = dict[str, str]


class Failed(msgspec.Struct, frozen=True):
    """The program told nothing, and why."""

    words: str


def parse_rows(text: str, fields: tuple[str, ...]) -> tuple[Row, ...]:
    """Read the program's CSV without a header, what is not told left out; rows may be short, other lines are none."""
    rows = []
    for line in text.splitlines():
        # No field that is asked for has a comma of its own.
        values = [value.strip() for value in line.split(",")]
        if len(values) > 1:
            rows.append({f: v for f, v in zip(fields, values, strict=False) if not _UNTOLD.fullmatch(v)})
    return tuple(rows)


def parse_gpu(row: Row) -> Gpu | None:
    """Make a GPU of a row; None when the row does not say which it is."""
    uuid = row.get("uuid", "")
    if not uuid.startswith("GPU-"):
        return None
    name, mode = row.get("name"), row.get("ecc.mode.current")
    lost = next((value for value in row.values() if _LOST.fullmatch(value)), None)
    busy = _number(row.get("utilization.gpu"))
    total = _bytes(row.get("memory.total"))
    return Gpu(
        uuid=uuid,
        name=name,
        gpu_class=None if name is None else gpu_class(name),
        index=_number(row.get("index")),
        total_bytes=total,
        free_bytes=None if lost else _bytes(row.get("memory.free")),
        utilization=None if busy is None else busy / 100,
        ecc=None if mode is None or lost else mode == "Enabled",
        ecc_errors=_number(row.get("ecc.errors.uncorrected.volatile.total")),
        unified=name is not None and shares_main_memory(name),
        problem=None if lost is None else f"{lost.strip('[]')}, says nvidia-smi",
    )


def parse_slices(text: str) -> dict[str, tuple[tuple[str, str], ...]]:
    """Read `nvidia-smi -L`: profile and uuid of the slices of each GPU, by its uuid."""
    found: dict[str, tuple[tuple[str, str], ...]] = {}
    whole = ""
    for line in text.splitlines():
        if gpu := _WHOLE.match(line):
            whole = gpu[1]
        elif (part := _SLICE.match(line)) and whole:
            found[whole] = (*found.get(whole, ()), (part[1], part[2]))
    return found


def parse_holders(text: str) -> dict[str, tuple[GpuProcess, ...]]:
    """Read the list of processes: who holds how much, by the uuid of the GPU."""
    found: dict[str, tuple[GpuProcess, ...]] = {}
    for row in parse_rows(text, HOLDER_FIELDS):
        uuid, pid = row.get("gpu_uuid"), _number(row.get("pid"))
        if uuid is not None and pid is not None:
            held = GpuProcess(pid=pid, held_bytes=_bytes(row.get("used_memory")))
            found[uuid] = (*found.get(uuid, ()), held)
    return found


def unknown_field(text: str) -> str | None:
    """Find the field that an old driver complains of."""
    found = _UNKNOWN_FIELD.search(text)
    return None if found is None else found[1]


class Smi:
    """Runs the program again and again, and remembers which fields this driver knows."""

    def __init__(self, program: str = PROGRAM, limit_s: float = LIMIT_S) -> None:
        self._program = program
        self._limit_s = limit_s
        self._fields: tuple[str, ...] = FIELDS

    def is_there(self) -> bool:
        """Tell whether the program is on the path."""
        return shutil.which(self._program) is not None

    def look(self) -> Sighting | Failed:
        """Ask for every GPU. Blocks up to the limit, and longer where the driver hangs."""
        said = self._asked_for_gpus()
        if isinstance(said, Failed):
            return said
        rows = parse_rows(said, self._fields)
        gpus = tuple(gpu for row in rows if (gpu := parse_gpu(row)) is not None)
        if any(row.get("mig.mode.current") == "Enabled" for row in rows):
            listed = self._run("-L")
            gpus = sliced(gpus, rows, {} if isinstance(listed, Failed) else parse_slices(listed))
        holders = self._holders(gpus)
        driver = next((row["driver_version"] for row in rows if "driver_version" in row), None)
        return Sighting(gpus=gpus, driver=driver, holders=holders)

    def _asked_for_gpus(self) -> str | Failed:
        while True:
            said = self._run(f"--query-gpu={','.join(self._fields)}", "--format=csv,noheader,nounits")
            unknown = unknown_field(said.words) if isinstance(said, Failed) else None
            if unknown not in self._fields:
                return said
            self._fields = tuple(field for field in self._fields if field != unknown)

    def _holders(self, gpus: tuple[Gpu, ...]) -> dict[str, tuple[GpuProcess, ...]]:
        asked = f"--query-compute-apps={','.join(HOLDER_FIELDS)}"
        said = self._run(asked, "--format=csv,noheader,nounits")
        if isinstance(said, Failed):
            return {}
        # Who holds memory of a slice is told as a holder of the whole.
        found = parse_holders(said)
        return {gpu.uuid: found.get(gpu.uuid, ()) for gpu in gpus if gpu.slice_of is None}

    def _run(self, *arguments: str) -> str | Failed:
        try:
            done = subprocess.run(
                (self._program, *arguments),
                capture_output=True,
                timeout=self._limit_s,
                env=clean_environment(os.environ, add={"LC_ALL": "C"}),
                stdin=subprocess.DEVNULL,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Failed(f"{self._program} did not answer within {self._limit_s:g} s")
        except OSError as error:
            return Failed(f"{self._program} cannot be run: {error.strerror}")
        said = done.stdout.decode(errors="replace")
        if done.returncode:
            words = (said + done.stderr.decode(errors="replace")).strip() or f"status {done.returncode}"
            return Failed(f"{self._program}: {' '.join(words.split())}")
        return said


def sliced(
    gpus: tuple[Gpu, ...], rows: tuple[Row, ...], slices: dict[str, tuple[tuple[str, str], ...]]
) -> tuple[Gpu, ...]:
    """Put the slices in the place of the GPUs that are sliced; how much memory each has this interface does not say."""
    are_sliced = {row.get("uuid") for row in rows if row.get("mig.mode.current") == "Enabled"}
    found: list[Gpu] = []
    for gpu in gpus:
        if gpu.uuid not in are_sliced:
            found.append(gpu)
            continue
        for profile, uuid in slices.get(gpu.uuid, ()):
            name = f"{gpu.name} {profile}" if gpu.name else profile
            part = msgspec.structs.replace(
                gpu,
                uuid=uuid,
                name=name,
                gpu_class=gpu_class(name),
                total_bytes=None,
                free_bytes=None,
                utilization=None,
                slice_of=gpu.uuid,
            )
            found.append(part)
        if gpu.uuid not in slices:
            words = "MIG mode is on and nvidia-smi lists no slices of it, so nothing can run on it"
            found.append(msgspec.structs.replace(gpu, problem=gpu.problem or words))
    return tuple(found)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _bytes(text: str | None) -> int | None:
    """Read a number of MiB, the unit of the program."""
    number = _number(text)
    return None if number is None else number * MIB
