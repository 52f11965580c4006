"""The last lines of an engine's output."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.output import LONGEST_LINE, clean_lines, tail


def test_colours_and_nuls_are_dropped_and_bytes_that_are_no_text_replaced() -> None:
    data = b"\x1b[31mred\x1b[0m\x1b]0;title\x07 \0end\xff\n"

    assert clean_lines(data, 5) == ("red end\ufffd",)


def test_a_progress_bar_collapses_to_its_last_update() -> None:
    assert clean_lines(b"10%\r50%\r100%\r\nnext\r\n", 5) == ("100%", "next")


def test_a_line_without_end_is_cut_and_the_cut_is_marked() -> None:
    [line] = clean_lines(b"x" * 3_000_000, 5)

    assert line.endswith("x [cut]")
    assert len(line.encode()) == LONGEST_LINE


def test_only_the_last_lines_that_say_something_are_kept() -> None:
    assert clean_lines(b"1\n\n2\n  \n3\n\n", 2) == ("2", "3")


def test_credentials_are_cut_out() -> None:
    [line] = clean_lines(b"given --api-key=abcdefghijklmnop\n", 1)

    assert "abcdefghijklmnop" not in line


def test_a_file_that_is_not_there_has_no_lines(tmp_path: Path) -> None:
    assert tail(tmp_path / "none", 5) == ()


def test_a_large_file_is_read_from_its_end(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"early\n" + b"x\n" * 1_000_000 + b"late\n")

    assert tail(tmp_path / "log", 2) == ("x", "late")


def test_a_hole_at_the_beginning_is_no_line(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.seek(20 * 1024 * 1024)
        file.write(b"rest of a line\nnext\n")

    assert tail(path, 5) == ("rest of a line", "next")


def test_a_file_that_is_one_hole_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as file:
        file.truncate(20 * 1024 * 1024)

    assert tail(path, 5) == ()


def test_a_line_longer_than_all_that_is_read_is_cut_and_hides_what_follows_it_not(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"y" * 3_000_000 + b"\nlast words\n")

    first, last = tail(path, 5)

    assert first.endswith("y [cut]")
    assert last == "last words"


@given(data=st.binary(max_size=3000), most=st.integers(1, 10))
def test_whatever_is_written_becomes_few_short_printable_lines(data: bytes, most: int) -> None:
    lines = clean_lines(data, most)

    assert len(lines) <= most
    for line in lines:
        assert 0 < len(line.encode()) <= LONGEST_LINE
        assert not set(line) & set("\n\r\0\x1b")
