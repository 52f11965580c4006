"""The end of an engine in words."""

from pathlib import Path

import pytest

from llmgw.agent.ends import LATELY_S, MemoryKills, exit_words, read_memory_kills
from llmgw.core.fleet.shards import Phase


@pytest.mark.parametrize(
    ("status", "adopted", "kills", "words"),
    [
        (4, False, 0, "fake ended with status 4 while ready"),
        (4, False, 2, "fake ended with status 4 while ready"),
        (None, True, 0, "fake ended (status unknown: it was adopted) while ready"),
        (
            None,
            True,
            1,
            "fake ended (status unknown: it was adopted) while ready; the kernel ended a process of this machine for "
            "want of memory in the last minutes",
        ),
        (-6, False, 1, "fake was ended by signal 6 (SIGABRT) while ready"),
        (
            -9,
            False,
            None,
            "fake was ended by signal 9 (SIGKILL), which the kernel sends when memory runs out, while ready",
        ),
        (
            -9,
            False,
            0,
            "fake was ended by signal 9 (SIGKILL) while ready; not by the kernel for want of memory",
        ),
        (
            -9,
            False,
            2,
            "fake was ended by signal 9 (SIGKILL) while ready; the kernel ended 2 processes of this machine for want "
            "of memory in the last minutes",
        ),
    ],
)
def test_an_end_is_told_with_what_is_known_of_it(
    status: int | None, adopted: bool, kills: int | None, words: str
) -> None:
    assert exit_words("fake", Phase.READY, status, adopted=adopted, kills=kills) == words


def test_the_kernel_s_count_is_read_where_it_has_one(tmp_path: Path) -> None:
    none = read_memory_kills(tmp_path)
    (tmp_path / "vmstat").write_text("nr_free_pages 7\noom_kill 3\n")
    three = read_memory_kills(tmp_path)
    (tmp_path / "vmstat").write_text("nr_free_pages 7\n")

    assert (none, three, read_memory_kills(tmp_path)) == (None, 3, None)


def test_only_what_was_ended_lately_counts() -> None:
    kills = MemoryKills(1, 0.0)

    at_once = kills.lately(2)
    kills.note(2, 1.0)
    soon = kills.lately(2)
    kills.note(2, LATELY_S)
    later = kills.lately(2)
    kills.note(2, 2 * LATELY_S)
    long_after = kills.lately(2)

    assert (at_once, soon, later, long_after) == (1, 1, 1, 0)


def test_what_the_kernel_does_not_count_is_unknown() -> None:
    assert MemoryKills(None, 0.0).lately(4) is None
    assert MemoryKills(4, 0.0).lately(None) is None
