"""Real processes that fetch: killed at any moment and continued, two at once, and on a disk that fills up."""

import asyncio
import contextlib
import os
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.waiting import until
from fakes.weights_server import COMMIT, Manner, WeightsServer
from real.requirement import missing

from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.weights import cache_name_of

pytestmark = pytest.mark.slow

PROGRAM = Path(__file__).parents[2] / "fakes" / "fetch_program.py"
CONTENT = random.Random(2).randbytes(2 * 1024 * 1024)
KILLS = 50
MOUNT = 'mount -t tmpfs -o size=1m tmpfs "$0" && exec "$@"'


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WeightsServer]:
    (tmp_path / "cache").mkdir()
    with WeightsServer() as server:
        yield server


async def fetching(
    cache: Path, hub: str, source: str, through: tuple[str, ...] = ()
) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *through,
        *(sys.executable, str(PROGRAM), str(cache), hub, source),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def killed(
    process: asyncio.subprocess.Process, server: WeightsServer, after: int, then_s: float
) -> bool:
    """Kill a process when so many bytes more were sent to it and a moment has passed; False when it had ended."""
    before = server.sent_bytes
    await until(lambda: server.sent_bytes - before >= after or process.returncode is not None, 30.0)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(then_s):
            await process.wait()
    if process.returncode is None:
        process.kill()
    await process.communicate()
    return process.returncode == -signal.SIGKILL


# Some sixty processes, one after the other: fifty seconds, and several times that where others want the processor.
@pytest.mark.timeout(600)
async def test_killed_at_fifty_moments_and_continued_the_file_is_right_each_time(
    tmp_path: Path, server: WeightsServer
) -> None:
    chance, cache = random.Random(7), WeightsCache(tmp_path / "cache")
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)
    name = cache_name_of(source) or ""
    place, partial = cache.place(name), cache.staging(name) / "files" / f"{name}.partial"
    server.manner = Manner(pace_s=0.02)
    kills, files = 0, 0

    while kills < KILLS or not files:
        process = await fetching(cache.folder, server.url, source)
        left = len(CONTENT) - (partial.stat().st_size if partial.exists() else 0)
        # From before the first byte to after the last one; every sixth is left to finish.
        moment = chance.uniform(0.0, 0.06) if (kills + files) % 6 else 60.0
        kills += await killed(process, server, chance.randint(0, left), moment)
        if place.exists():
            # What is at its place is whole, whenever its process died.
            files += 1
            assert place.read_bytes() == CONTENT
            place.unlink()

    assert files >= KILLS // 6
    assert server.most_open == 1
    assert sum(request.range is not None for request in server.gets()) > KILLS // 4


async def test_two_processes_make_one_download_and_both_have_it(
    tmp_path: Path, server: WeightsServer
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(pace_s=0.02))

    both = [await fetching(tmp_path / "cache", server.url, source) for _ in range(2)]
    said = [await process.communicate() for process in both]

    assert [process.returncode for process in both] == [0, 0], said
    assert len(server.gets(f"/org/repo/resolve/{COMMIT}/m.gguf")) == 1


async def test_a_disk_that_is_full_in_the_middle_is_named_with_both_numbers_and_keeps_the_partial(
    tmp_path: Path, server: WeightsServer
) -> None:
    if os.geteuid() != 0:
        missing("only root may mount the small filesystem that this test fills")
    cache = tmp_path / "cache"
    server.head_status = 405
    url = server.serve("/m.gguf", CONTENT)
    # Without a length nobody can tell beforehand that it will not fit.
    server.manner = Manner(no_length=True)
    script = f'"$@"; echo "status $?"; ls -l {cache}/*/files'
    through = ("unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT, str(cache))

    process = await fetching(cache, server.url, url, (*through, "sh", "-c", script, "sh"))
    out, _ = await process.communicate()

    text = out.decode()
    assert f"the disk is full: filesystem {cache} (tmpfs) has 0 of {1024 * 1024} bytes free" in text
    assert "what came so far stays, and is gone on with" in text
    assert "status 1" in text
    assert ".partial" in text


async def test_a_disk_with_too_little_room_is_told_before_the_first_byte(
    tmp_path: Path, server: WeightsServer
) -> None:
    if os.geteuid() != 0:
        missing("only root may mount the small filesystem of this test")
    cache = tmp_path / "cache"
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)
    through = ("unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT, str(cache))

    process = await fetching(cache, server.url, source, through)
    out, _ = await process.communicate()

    assert f"{len(CONTENT)} bytes more are needed, and filesystem {cache} (tmpfs) has " in out.decode()
    assert server.gets() == []


async def test_a_killed_process_leaves_nothing_that_blocks_the_next(
    tmp_path: Path, server: WeightsServer
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(stall_after=100_000))
    process = await fetching(tmp_path / "cache", server.url, source)
    await until(lambda: list((tmp_path / "cache").rglob("*.partial")))
    await until(lambda: next((tmp_path / "cache").rglob("*.partial")).stat().st_size)

    process.kill()
    await process.communicate()
    following = await fetching(tmp_path / "cache", server.url, source)
    await following.communicate()

    assert following.returncode == 0
    assert server.gets()[-1].range == "bytes=100000-"


async def test_a_length_that_only_the_answer_names_is_looked_at_before_its_first_byte(
    tmp_path: Path, server: WeightsServer
) -> None:
    if os.geteuid() != 0:
        missing("only root may mount the small filesystem of this test")
    cache = tmp_path / "cache"
    server.head_status = 405
    url = server.serve("/m.gguf", CONTENT)
    through = ("unshare", "--mount", "--propagation", "private", "sh", "-c", MOUNT, str(cache))

    process = await fetching(cache, server.url, url, through)
    out, _ = await process.communicate()

    assert f"{len(CONTENT)} bytes more are needed, and filesystem {cache} (tmpfs) has " in out.decode()
