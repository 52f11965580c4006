"""One follow, look by look."""

from pathlib import Path

import pytest

from llmgw.agent.engine_log import begin
from llmgw.agent.logs.following import LOOK_AGAIN_S, QUIET_S, UPDATES_S, Following
from llmgw.agent.logs.ring import Ring
from llmgw.agent.logs.sources import Sources
from llmgw.agent.state_dir import StateDir
from llmgw.wire.frames import FollowLogs, LogLines


class _Log:
    """The log of shard `m.0.0`, and follows of it."""

    def __init__(self, folder: Path) -> None:
        self.state_dir = StateDir(str(folder))
        self.state_dir.make()
        self.path = self.state_dir.log_of("m.0.0")
        self.sources = Sources("n1", self.state_dir, Ring(), lambda: ())

    def write(self, data: bytes) -> None:
        with self.path.open("ab") as file:
            file.write(data)

    def follow(self, **given: object) -> Following:
        frame = FollowLogs(**{"follow_id": 7, "source": "m.0.0"} | given)  # type: ignore[arg-type] # a test names fields
        return Following(frame, self.sources, 0.0)


@pytest.fixture
def log(tmp_path: Path) -> _Log:
    return _Log(tmp_path)


def said(piece: LogLines | None) -> LogLines:
    assert piece is not None
    return piece


def test_the_first_piece_comes_at_once_with_the_newest_lines_and_all_sources(log: _Log) -> None:
    log.write(b"1\n2\n3\n")

    piece = said(log.follow(lines=2).look(0.0))

    assert piece.lines == ("2", "3")
    assert (piece.number, piece.live, piece.sources) == (1, True, ("agent", "m.0.0"))


def test_nothing_is_said_when_nothing_came(log: _Log) -> None:
    log.write(b"1\n")
    following = log.follow()
    following.look(0.0)

    assert following.look(0.1) is None
    log.write(b"2\n")
    assert said(following.look(0.2)).lines == ("2",)


def test_another_follow_goes_on_from_the_cursor(log: _Log) -> None:
    log.write(b"1\n2\n")
    cursor = said(log.follow().look(0.0)).cursor
    log.write(b"3\n")

    piece = said(log.follow(cursor=cursor).look(0.0))

    assert (piece.lines, piece.gap) == (("3",), False)


def test_a_cursor_that_cannot_be_read_begins_with_the_newest_lines_and_says_so(log: _Log) -> None:
    log.write(b"1\n2\n")

    piece = said(log.follow(cursor="nonsense", lines=1).look(0.0))

    assert (piece.lines, piece.gap) == (("2",), True)


def test_a_source_that_is_not_there_ends_the_follow_with_the_sources(log: _Log) -> None:
    piece = said(log.follow(source="NOPE").look(0.0))

    assert piece.ended
    assert piece.error == "no log source 'NOPE' on node n1; it has: agent"
    assert piece.sources == ("agent",)


def test_a_log_that_is_removed_ends_the_follow(log: _Log) -> None:
    log.write(b"1\n")
    following = log.follow()
    following.look(0.0)
    log.path.unlink()

    assert said(following.look(1.0)).ended


def test_a_quiet_line_without_an_end_is_shown_once(log: _Log) -> None:
    log.write(b"Segmentation fault")
    following = log.follow()
    first = said(following.look(0.0))
    early = following.look(QUIET_S / 2)
    late = said(following.look(QUIET_S + 0.1))
    log.write(b" (core dumped)\n")
    rest = said(following.look(QUIET_S + 0.2))

    assert first.lines == ()
    assert early is None
    assert late.lines == ("Segmentation fault",)
    assert rest.lines == ("(core dumped)",) or rest.lines == (" (core dumped)",)


def test_a_line_that_still_grows_waits_for_its_end(log: _Log) -> None:
    following = log.follow()
    log.write(b"a")
    following.look(0.0)
    for tenth in range(1, 40):
        log.write(b"b")
        assert following.look(tenth * 0.1) is None
    log.write(b"\n")

    assert said(following.look(4.1)).lines == ("a" + "b" * 39,)


def test_what_arrives_after_a_long_silence_is_not_torn(log: _Log) -> None:
    log.write(b"1\n")
    following = log.follow()
    following.look(0.0)
    following.look(100.0)
    log.write(b"half a li")
    torn = following.look(200.0)
    log.write(b"ne\n")

    assert torn is None
    assert said(following.look(200.1)).lines == ("half a line",)


def test_a_progress_bar_is_shown_now_and_then(log: _Log) -> None:
    following = log.follow()
    log.write(b"start\n")
    following.look(0.0)
    shown = []
    for tenth in range(1, 50):
        log.write(b"%d%%\r" % tenth)
        if (piece := following.look(tenth * 0.1)) is not None:
            shown.append(piece.lines)
    log.write(b"done\n")

    assert 1 <= len(shown) <= 5 / UPDATES_S
    assert all(len(lines) == 1 and lines[0].endswith("%") for lines in shown)
    assert said(following.look(5.0)).lines == ("done",)


def test_a_follow_with_an_end_stops_there_and_says_its_cursor_as_it_was_given(log: _Log) -> None:
    log.write(b"1\n2\n")
    begin_at = said(log.follow(lines=1).look(0.0)).cursor
    log.write(b"3\n4\n")
    until = said(log.follow(lines=0).look(0.0)).cursor
    log.write(b"5\n")

    piece = said(log.follow(cursor=begin_at, until=until).look(0.0))

    assert piece.lines == ("3", "4")
    assert (piece.cursor, piece.ended) == (until, True)


def test_a_follow_whose_end_is_gone_ends_at_the_newest_line(log: _Log) -> None:
    log.write(b"1\n")
    cursor = said(log.follow().look(0.0)).cursor
    log.write(b"2\n")

    piece = said(log.follow(cursor=cursor, until="0-0:5:0").look(0.0))

    assert (piece.lines, piece.ended) == (("2",), True)


def test_a_new_run_is_said_when_its_first_lines_come(log: _Log) -> None:
    log.write(b"1\n")
    following = log.follow()
    following.look(0.0)
    begin(log.path)
    log.write(b"again\n")

    piece = said(following.look(0.1))

    assert (piece.lines, piece.new_run) == (("again",), True)


def test_sources_that_came_meanwhile_are_said(log: _Log) -> None:
    log.write(b"1\n")
    following = log.follow()
    following.look(0.0)
    log.state_dir.log_of("other.0.0").write_text("x")

    assert following.look(LOOK_AGAIN_S - 0.1) is None
    assert said(following.look(LOOK_AGAIN_S)).sources == ("agent", "m.0.0", "other.0.0")
    assert following.look(LOOK_AGAIN_S + 0.1) is None


def test_no_more_pieces_than_the_window_holds_are_under_way(log: _Log) -> None:
    following = log.follow(window=2)
    for number in range(2):
        log.write(b"%d\n" % number)
        assert following.may_send
        following.look(0.0)

    assert not following.may_send
    following.taken(1)
    assert following.may_send
    following.taken(99)
    following.taken(-5)
    assert following.may_send
