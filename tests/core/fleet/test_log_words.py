"""What viewers of a log are told beside its lines."""

import pytest

from llmgw.core.fleet.logs import LogPiece, event_of, is_cursor, is_source, missing_words


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (LogPiece(lines=("a",)), None),
        (LogPiece(lost_lines=3), "3 lines were overwritten before they could be shown"),
        (LogPiece(lost_bytes=100), "100 B were overwritten before they could be shown"),
        (
            LogPiece(lost_bytes=3 * 2**20),
            "3.0 MiB (3145728 bytes) were overwritten before they could be shown",
        ),
        (LogPiece(new_run=True), "a new run begins"),
        (LogPiece(gap=True, new_run=True), "some lines are gone, and nobody counted them; a new run begins"),
    ],
)
def test_what_is_missing_is_counted_where_it_can_be(piece: LogPiece, words: str | None) -> None:
    assert missing_words(piece) == words


def test_an_event_says_all_that_its_piece_does() -> None:
    piece = LogPiece(
        lines=("1", "2"), cursor="c:2", new_run=True, sources=("agent",), ended=True, error="gone"
    )

    event = event_of(piece)

    assert (event.lines, event.cursor, event.marker) == (("1", "2"), "c:2", "a new run begins")
    assert (event.sources, event.ended, event.error) == (("agent",), True, "gone")


@pytest.mark.parametrize(("newest", "lines"), [(0, ()), (1, ("3",)), (2, ("2", "3")), (9, ("1", "2", "3"))])
def test_only_the_newest_lines_are_given_where_they_are_counted(newest: int, lines: tuple[str, ...]) -> None:
    piece = LogPiece(lines=("1", "2", "3"), lost_lines=4)

    event = event_of(piece, newest)

    assert event.lines == lines
    assert (event.marker is None) == (newest < 3)


@pytest.mark.parametrize(
    "text", ["agent", "org/m:7b.0.0@crash", "install:llama.cpp", "fetch:0a1b", "x" * 200]
)
def test_a_source_is_a_short_printable_name(text: str) -> None:
    assert is_source(text)


@pytest.mark.parametrize("text", ["", "a\nb", "\0", "x" * 201, "\u2028"])
def test_what_no_node_would_call_a_log_is_no_source(text: str) -> None:
    assert not is_source(text)


@pytest.mark.parametrize("text", ["", "a\n", "c\nid: x", "a b", "x" * 129, "é"])
def test_what_could_be_a_line_of_its_own_is_no_cursor(text: str) -> None:
    assert is_cursor("2f-18ecede:4096:ab+")
    assert not is_cursor(text)
