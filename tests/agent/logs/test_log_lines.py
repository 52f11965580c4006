"""Bytes become lines, and reading on from where it stopped loses and repeats nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.logs.lines import LONGEST_WAITING, Flush, Split, split
from llmgw.agent.output import LONGEST_LINE, clean_lines


def test_a_line_without_its_end_waits() -> None:
    assert split(b"one\ntwo\nthr") == Split(("one", "two"), 8, False)


def test_a_flushed_line_is_given_as_it_is() -> None:
    assert split(b"one\nthr", flush=Flush.ALL) == Split(("one", "thr"), 7, False)


def test_a_progress_bar_is_given_as_it_stands_and_goes_on_behind_it() -> None:
    data = b"10%\r20%\r30"

    first = split(data, flush=Flush.UPDATES)
    rest = split(data[first.used :] + b"%\r\n")

    assert first == Split(("20%",), 8, False)
    assert rest == Split(("30%",), 5, False)


def test_a_bar_whose_end_is_there_collapses_to_its_last_update() -> None:
    assert split(b"10%\r20%\r30%\r\nnext\n").lines == ("30%", "next")


def test_a_line_that_grows_too_long_is_cut_at_once_and_its_rest_is_skipped() -> None:
    first = split(b"x" * (LONGEST_WAITING + 1))
    middle = split(b"y" * 100, skipping=first.skipping)
    last = split(b"z\nnext\n", skipping=middle.skipping)

    assert len(first.lines) == 1
    assert first.lines[0].endswith("[cut]")
    assert len(first.lines[0].encode()) == LONGEST_LINE
    assert first.skipping
    assert middle == Split((), 100, True)
    assert last == Split(("next",), 7, False)


def test_no_more_lines_are_given_than_are_wanted() -> None:
    assert split(b"1\n2\n3\n", most=2) == Split(("1", "2"), 4, False)


@pytest.mark.parametrize("data", [b"", b"\n\n", b"\0\0\n", b"\x1b[0m\n"])
def test_lines_that_say_nothing_are_passed_over(data: bytes) -> None:
    assert split(data) == Split((), len(data), False)


@given(
    lines=st.lists(st.binary(max_size=60).map(lambda raw: raw.replace(b"\n", b"")), max_size=20),
    cuts=st.lists(st.integers(0, 300), max_size=8),
    most=st.integers(1, 5),
)
def test_however_the_bytes_come_in_the_lines_are_those_of_the_whole(
    lines: list[bytes], cuts: list[int], most: int
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    found: list[str] = []
    used, skipping = 0, False

    for end in sorted(min(cut, len(data)) for cut in [*cuts, len(data)]):
        while True:
            part = split(data[used:end], skipping=skipping, most=most)
            found += part.lines
            used, skipping = used + part.used, part.skipping
            if part.used == 0 or used == end:
                break

    assert used == len(data)
    assert tuple(found) == clean_lines(data, 1000)
