import asyncio
import subprocess
import sys
from pathlib import Path

from fakes.nodes import a_shard
from msgspec.structs import replace

from llmgw.agent.uses import Held, Uses, parse_status, read_sessions, together
from llmgw.core.fleet.beat import ShardUse
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.units import MIB

STATUS = """Name:\tllama-server
VmHWM:\t  570000 kB
VmRSS:\t  560000 kB
RssAnon:\t  550000 kB
RssFile:\t    9000 kB
RssShmem:\t    1000 kB
Threads:\t7
"""


def held(anonymous: int, file: int = 0, shared: int = 0, high_water: int = 0) -> Held:
    return Held(
        start_ticks=1,
        anonymous=anonymous * MIB,
        file=file * MIB,
        shared=shared * MIB,
        high_water=high_water * MIB,
    )


class FakeProc:
    """A /proc with nothing in it but what it is told."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "proc").mkdir()
        (root / "proc" / "meminfo").write_text("")

    def process(
        self, pid: int, session: int, anonymous_kib: int, *, ticks: int = 7, state: str = "S"
    ) -> None:
        folder = self.root / "proc" / str(pid)
        folder.mkdir(exist_ok=True)
        fields = [state, "1", str(session), str(session), *["0"] * 15, str(ticks), "0"]
        (folder / "stat").write_text(f"{pid} (a ) name) {' '.join(fields)}\n")
        lines = [f"VmHWM:\t{anonymous_kib + 64} kB", f"RssAnon:\t{anonymous_kib} kB", "RssFile:\t32 kB"]
        (folder / "status").write_text("\n".join(lines))


def a_ready(pid: int | None, **changes: object) -> ShardState:
    return replace(a_shard("gemma", 0), pid=pid, **changes)


def test_the_kernels_words_are_read_and_what_has_no_memory_is_nothing() -> None:
    assert parse_status(STATUS, 5) == Held(
        start_ticks=5,
        anonymous=550000 * 1024,
        file=9000 * 1024,
        shared=1000 * 1024,
        high_water=570000 * 1024,
    )
    assert parse_status("Name:\tkthreadd\nThreads:\t1\n") is None
    assert parse_status("RssAnon:\tmuch\n") is None


def test_one_process_holds_all_it_has_and_its_peak_is_the_kernels() -> None:
    assert together([held(500, file=11, shared=1, high_water=700)]) == (512 * MIB, 700 * MIB)


def test_what_several_processes_map_counts_once() -> None:
    several = [held(100, file=2000, shared=64, high_water=9000), held(300, file=2100, shared=64), held(10)]

    assert together(several) == ((410 + 2100 + 64) * MIB, (410 + 2100 + 64) * MIB)


def test_processes_belong_to_the_session_of_their_engine_and_dead_ones_to_none(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    proc.process(10, 10, 1000)
    proc.process(11, 10, 500)
    proc.process(12, 10, 500, state="Z")
    proc.process(20, 20, 9999)

    found = read_sessions([10, 30], tmp_path / "proc")

    assert {leader: sorted(of) for leader, of in found.items()} == {10: [10, 11], 30: []}


async def test_the_peak_of_several_is_the_most_that_was_seen_at_once_and_stays(tmp_path: Path) -> None:
    proc, shard = FakeProc(tmp_path), a_ready(10)
    uses = Uses(lambda: (shard,), root=tmp_path)
    proc.process(10, 10, 1000)
    proc.process(11, 10, 3000)
    before = await uses.now()

    proc.process(11, 10, 500)
    after = await uses.now()

    assert before == (ShardUse(shard=shard.shard, memory_bytes=4032 * 1024, peak_bytes=4032 * 1024),)
    assert after == (ShardUse(shard=shard.shard, memory_bytes=1532 * 1024, peak_bytes=4032 * 1024),)


async def test_another_process_of_the_same_pid_begins_anew(tmp_path: Path) -> None:
    proc = FakeProc(tmp_path)
    uses = Uses(lambda: (a_ready(10),), root=tmp_path)
    proc.process(10, 10, 9000)
    await uses.now()

    proc.process(10, 10, 100, ticks=8)
    after = await uses.now()

    assert after is not None
    assert [use.peak_bytes for use in after] == [164 * 1024]


async def test_shards_that_do_not_run_or_are_gone_are_not_said(tmp_path: Path) -> None:
    FakeProc(tmp_path).process(11, 10, 100)
    states = [a_ready(None), a_ready(10), a_ready(12), a_ready(11, phase=Phase.FAILED)]

    assert await Uses(lambda: states, root=tmp_path).now() == ()


async def test_a_kernel_that_does_not_tell_is_no_use_of_nothing(tmp_path: Path) -> None:
    assert await Uses(lambda: (a_ready(10),), root=tmp_path).now() is None


def test_a_real_process_is_measured_with_its_peak() -> None:
    program = "import sys; b = b'x' * (64 << 20); del b; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        said = asyncio.run(Uses(lambda: (a_ready(process.pid),)).now())
        process.stdin.close()

    assert said is not None
    (use,) = said
    assert use.memory_bytes is not None
    assert use.peak_bytes is not None
    assert use.peak_bytes > use.memory_bytes + 50 * MIB
    assert MIB < use.memory_bytes < 50 * MIB
