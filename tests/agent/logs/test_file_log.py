"""Files read from any place on, whatever has become of them meanwhile."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmgw.agent.engine_log import begin, trim
from llmgw.agent.logs.file_log import FileLog
from llmgw.agent.logs.lines import Flush
from llmgw.agent.logs.position import Chunk, Position
from llmgw.core.units import KIB, MIB


def no_holes(descriptor: int, until: int) -> bool:
    return False


def numbered(first: int, after: int) -> bytes:
    return b"".join(b"line %07d\n" % number for number in range(first, after))


def read_all(log: FileLog, position: Position | None) -> tuple[list[str], Chunk]:
    """Read on until nothing more is there; the lines, and the last chunk with all that was lost."""
    lines: list[str] = []
    lost, gap, new_run = 0, False, False
    while True:
        chunk = log.read(position)
        lines += chunk.lines
        lost, gap, new_run = lost + chunk.lost_bytes, gap or chunk.gap, new_run or chunk.new_run
        if chunk.live:
            return lines, Chunk(position=chunk.position, lost_bytes=lost, gap=gap, new_run=new_run)
        position = chunk.position


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "m.0.0.log"


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


def test_a_follow_begins_with_the_newest_lines_and_goes_on_with_those_that_come(path: Path) -> None:
    path.write_bytes(numbered(0, 100))
    log = FileLog(path)

    first = log.read(log.begin(2))
    append(path, b"more\nand a par")
    second = log.read(first.position)
    third = log.read(second.position)

    assert first.lines == ("line 0000098", "line 0000099")
    assert first.live
    assert (second.lines, second.pending_bytes) == (("more",), 9)
    assert third.lines == ()


def test_more_lines_than_there_are_begin_with_the_first(path: Path) -> None:
    path.write_bytes(b"1\n2\n3")
    log = FileLog(path)

    chunk = log.read(log.begin(50), flush=Flush.ALL)

    assert chunk.lines == ("1", "2", "3")


def test_no_lines_at_all_begin_at_the_end(path: Path) -> None:
    path.write_bytes(b"1\n2\n")
    log = FileLog(path)

    assert log.read(log.begin(0)).lines == ()


def test_a_long_output_comes_in_parts_of_which_only_the_last_is_the_newest(path: Path) -> None:
    path.write_bytes(numbered(0, 50_000))
    log = FileLog(path)

    first = log.read(log.begin(50_000))
    rest, _ = read_all(log, first.position)

    assert not first.live
    assert len(first.lines) == 2000
    assert [*first.lines, *rest] == numbered(0, 50_000).decode().splitlines()


def test_what_was_given_back_to_the_disk_is_counted_and_the_first_whole_line_comes_next(path: Path) -> None:
    path.write_bytes(numbered(0, 1000))
    log = FileLog(path)
    position = log.read(log.begin(1)).position
    append(path, numbered(1000, 200_000))
    trim(path, MIB)

    lines, end = read_all(log, position)

    assert lines == numbered(200_000 - len(lines), 200_000).decode().splitlines()
    assert MIB <= len(lines) * 13 < MIB + 2 * 13 + 4096
    assert end.lost_bytes == (199_000 - len(lines)) * 13
    assert not end.gap


def test_a_trim_that_ends_before_the_place_loses_nothing(path: Path) -> None:
    path.write_bytes(numbered(0, 200_000))
    log = FileLog(path)
    kept_from = (200_000 * 13 - MIB) // 13

    for lines_behind in (0, 1, 2, 3):
        position = log.begin(200_000 - kept_from - lines_behind)
        assert position is not None
        trim(path, MIB)
        lines, end = read_all(log, position)

        assert lines[0] == f"line {kept_from + lines_behind:07d}"
        assert (end.lost_bytes, end.gap) == (0, False)


def test_a_line_longer_than_a_trim_looks_back_is_torn_and_no_more(path: Path) -> None:
    path.write_bytes(b"early\n" + b"x" * 3 * MIB + b"\nlast\n")
    log = FileLog(path)
    position = Position(_run(log), 0)
    trim(path, MIB)

    lines, end = read_all(log, position)

    assert lines[-1] == "last"
    assert len(lines) == 2
    assert end.lost_bytes > MIB


def test_a_new_run_follows_the_rest_of_the_one_before(path: Path) -> None:
    path.write_bytes(b"1\n")
    log = FileLog(path)
    position = log.read(log.begin(5)).position
    append(path, b"2\nlast words")
    begin(path)
    path.write_bytes(b"again\n")

    first = log.read(position)
    second = log.read(first.position)

    assert (first.lines, first.new_run, first.live) == (("2", "last words"), False, False)
    assert (second.lines, second.new_run, second.live) == (("again",), True, True)
    assert not second.gap


def test_a_place_in_a_run_that_is_gone_says_that_something_is_missing(path: Path) -> None:
    path.write_bytes(b"first run\n")
    log = FileLog(path)
    position = log.read(log.begin(5)).position
    for words in (b"second run\n", b"third run\n"):
        begin(path)
        path.write_bytes(words)

    lines, end = read_all(log, position)

    assert lines == ["second run", "third run"]
    assert end.gap
    assert end.new_run


def test_an_inode_that_is_used_again_is_another_run(path: Path) -> None:
    # Filesystems give the inode of a removed file to the next one that is made.
    path.write_bytes(b"same words\n")
    log = FileLog(path)
    position = log.read(log.begin(5)).position
    for _ in range(20):
        path.unlink()
        path.write_bytes(b"same words\n")

    chunk = log.read(position)

    assert chunk.lines == ("same words",)
    assert chunk.gap


def test_where_holes_cannot_be_made_reading_goes_on_where_the_lines_have_moved_to(path: Path) -> None:
    path.write_bytes(numbered(0, 200_000))
    log = FileLog(path)
    position = log.read(log.begin(1000)).position
    append(path, b"next\n")

    trim(path, MIB, punch=no_holes)
    append(path, b"and next\n")
    lines, end = read_all(log, position)

    assert lines == ["next", "and next"]
    assert not end.gap


def test_where_holes_cannot_be_made_a_place_that_was_given_up_is_a_gap(path: Path) -> None:
    path.write_bytes(numbered(0, 1000))
    log = FileLog(path)
    position = log.read(log.begin(1)).position
    append(path, numbered(1000, 200_000))

    trim(path, MIB, punch=no_holes)
    lines, end = read_all(log, position)

    assert lines[-1] == "line 0199999"
    assert lines[1:] == numbered(200_000 - len(lines) + 1, 200_000).decode().splitlines()
    assert end.gap


def test_a_line_of_megabytes_is_shown_once_and_cut(path: Path) -> None:
    path.write_bytes(b"before\n" + b"y" * 4 * MIB + b"\nafter\n")
    log = FileLog(path)

    lines, _ = read_all(log, Position(_run(log), 0))

    assert [line[:6] for line in lines] == ["before", "yyyyyy", "after"]
    assert lines[1].endswith("[cut]")


def test_a_place_to_stop_at_is_not_passed(path: Path) -> None:
    path.write_bytes(numbered(0, 10))
    log = FileLog(path)
    stop = log.begin(4)
    assert stop is not None

    chunk = log.read(log.begin(6), until=stop)

    assert chunk.lines == ("line 0000004", "line 0000005")
    assert chunk.position == stop


def test_there_is_nothing_to_read_before_there_is_a_file(path: Path) -> None:
    log = FileLog(path)

    assert log.begin(10) is None
    assert log.read(None) == Chunk()
    path.write_bytes(b"it begins\n")
    assert log.read(None).lines == ("it begins",)


def test_a_link_is_not_followed_to_files_of_others(path: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("not yours\n")
    path.symlink_to(tmp_path / "secret")

    with pytest.raises(OSError, match="symbolic"):
        FileLog(path).read(None)


def _run(log: FileLog) -> str:
    position = log.begin(0)
    assert position is not None
    return position.run


@settings(deadline=None)
@given(
    writes=st.lists(st.integers(1, 2000), min_size=1, max_size=12),
    steps=st.lists(st.sampled_from(["read", "trim", "run"]), min_size=1, max_size=12),
)
def test_whatever_happens_between_two_reads_lines_are_read_in_order_and_once(
    tmp_path_factory: pytest.TempPathFactory, writes: list[int], steps: list[str]
) -> None:
    path = tmp_path_factory.mktemp("log") / "m.log"
    path.touch()
    log = FileLog(path)
    position, written, runs_since_read = log.begin(0), 0, 0
    seen: list[int] = []
    for count, step in zip(writes, steps, strict=False):
        append(path, numbered(written, written + count))
        written += count
        if step == "trim":
            trim(path, 16 * KIB)
        elif step == "run":
            begin(path)
            path.touch()
            runs_since_read += 1
        else:
            before = len(seen)
            lines, end = read_all(log, position)
            seen += [int(line[5:]) for line in lines]
            expected = written - (seen[before - 1] + 1 if before else 0)
            missing = expected - len(lines)
            assert missing >= 0
            assert end.lost_bytes == missing * 13 or end.gap
            assert not end.gap or runs_since_read > 1
            position, runs_since_read = end.position, 0

    assert seen == sorted(set(seen))
