"""The agent's own newest lines."""

import logging
from collections.abc import Iterator

import pytest

from llmgw.agent.logs.ring import MOST_CHARACTERS, Ring
from llmgw.agent.output import LONGEST_LINE

LOG = logging.getLogger("llmgw.agent.test_ring")


@pytest.fixture
def ring() -> Iterator[Ring]:
    made = Ring(most=5)
    before = LOG.level
    LOG.setLevel(logging.INFO)
    with made.listening():
        yield made
    LOG.setLevel(before)


def words(lines: tuple[str, ...]) -> list[str]:
    return [line.rpartition(": ")[2] for line in lines]


def test_the_newest_lines_are_kept_and_others_still_hear_them(
    ring: Ring, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(8):
        LOG.info("number %d", number)

    assert words(ring.tail(2)) == ["number 6", "number 7"]
    assert len(ring.tail(100)) == 5
    assert len(caplog.messages) == 8


def test_a_secret_never_gets_in(ring: Ring) -> None:
    LOG.info("asked with Authorization: Bearer abcdefgh12345678")

    assert "abcdefgh" not in "".join(ring.tail(5))


def test_lines_of_a_server_in_the_same_process_are_left_out(ring: Ring) -> None:
    for name in ("llmgw.server.main", "llmgw.control.hub", "llmgw.router"):
        logging.getLogger(name).warning("not the agent's")

    assert ring.tail(5) == ()


def test_a_traceback_is_kept_line_by_line(ring: Ring) -> None:
    try:
        raise ValueError("broken")
    except ValueError:
        LOG.exception("it failed")

    assert any("it failed" in line for line in ring.tail(5))
    assert ring.tail(1)[0].strip() == "ValueError: broken"


def test_a_record_that_cannot_be_written_ends_nothing(
    ring: Ring, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    ring.handle(logging.LogRecord("llmgw.agent", logging.INFO, "f", 1, "%d", ("no number",), None))

    assert ring.tail(5) == ()


def test_memory_is_bounded_however_long_lines_are() -> None:
    ring = Ring(most=10**6)
    for _ in range(2 * MOST_CHARACTERS // LONGEST_LINE):
        ring.handle(logging.LogRecord("llmgw.agent", logging.INFO, "f", 1, "x" * 10_000, (), None))

    assert MOST_CHARACTERS - LONGEST_LINE <= sum(map(len, ring.tail(10**6))) <= MOST_CHARACTERS


def test_reading_on_gives_what_came_since_and_counts_what_was_overwritten(ring: Ring) -> None:
    LOG.info("1")
    position = ring.begin(10)
    first = ring.read(position)
    LOG.info("2")
    second = ring.read(first.position)
    for number in range(10):
        LOG.info("more %d", number)
    third = ring.read(second.position)

    assert words(first.lines) == ["1"]
    assert words(second.lines) == ["2"]
    assert words(third.lines) == [f"more {number}" for number in range(5, 10)]
    assert (third.lost_lines, third.gap) == (5, False)


def test_a_place_in_an_earlier_agents_lines_says_that_a_new_run_began(ring: Ring) -> None:
    position = Ring().begin(0)
    LOG.info("hello")

    chunk = ring.read(position)

    assert words(chunk.lines) == ["hello"]
    assert (chunk.gap, chunk.new_run) == (True, True)


def test_a_place_to_stop_at_is_not_passed(ring: Ring) -> None:
    for number in range(4):
        LOG.info("%d", number)

    chunk = ring.read(ring.begin(3), until=ring.begin(1))

    assert words(chunk.lines) == ["1", "2"]
    assert chunk.position == ring.begin(1)
