"""`ctl logs`: lines on stdout, everything else on stderr, 1 when there is nothing to show."""

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from click.testing import Result
from fakes.operations import FakeOperations

from llmgw.core.fleet.logs import LogEvent, LogTail

Ctl = Callable[..., Result]


def test_lines_go_to_stdout_and_a_closing_note_with_the_other_sources_to_stderr(
    ctl: Ctl, operations: FakeOperations
) -> None:
    operations.logs.tails["agent"] = LogTail(lines=("one", "two"), sources=("agent", "m.0.0", "fetch:0a"))

    done = ctl("logs", "big")

    assert done.exit_code == 0
    assert done.stdout == "one\ntwo\n"
    assert done.stderr == "llmgw: 2 lines of agent on big; other sources (--source): m.0.0, fetch:0a\n"
    assert operations.logs.asked == [("big", "agent", 200, None)]


def test_source_and_count_are_asked_for(ctl: Ctl, operations: FakeOperations) -> None:
    operations.logs.tails["m.0.0@crash"] = LogTail(lines=("x",), sources=("agent", "m.0.0@crash"), left_out=7)

    done = ctl("logs", "big", "--source", "m.0.0@crash", "-n", "500")

    assert operations.logs.asked == [("big", "m.0.0@crash", 500, None)]
    assert "1 line of m.0.0@crash on big (7 older ones had no room" in done.stderr


def test_json_is_the_answer_of_the_api(ctl: Ctl, operations: FakeOperations) -> None:
    operations.logs.tails["agent"] = LogTail(lines=("one",), sources=("agent",))

    done = ctl("logs", "big", "--json")

    assert json.loads(done.stdout) == {
        "node": "big",
        "source": "agent",
        "lines": ["one"],
        "sources": ["agent"],
    }
    assert done.stderr == ""


def test_an_unknown_source_names_the_sources_and_ends_with_1(ctl: Ctl, operations: FakeOperations) -> None:
    operations.logs.tails["m.0.0"] = LogTail(lines=("x",))

    done = ctl("logs", "big", "--source", "NOPE")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr == "llmgw: no log source 'NOPE' on this node; it has: agent, m.0.0\n"


def test_sources_are_named_where_the_error_does_not(ctl: Ctl, operations: FakeOperations) -> None:
    operations.logs.tails["agent"] = LogTail(error="the agent did not answer", sources=("agent", "m.0.0"))

    done = ctl("logs", "big")

    assert done.exit_code == 1
    assert done.stderr == "llmgw: the agent did not answer; sources: agent, m.0.0\n"


@pytest.mark.parametrize("options", [(), ("-f",)])
def test_a_node_that_nobody_knows_has_no_stream(ctl: Ctl, options: tuple[str, ...]) -> None:
    done = ctl("logs", "nobody", *options)

    assert done.exit_code == 1
    assert done.stderr.startswith("llmgw: no node called 'nobody' has a stream to this server; ")


def test_a_line_that_would_steer_a_terminal_is_spelt_out(ctl: Ctl, operations: FakeOperations) -> None:
    operations.logs.tails["agent"] = LogTail(lines=("a\x1b[2Jb\tc\u202ed",))

    assert ctl("logs", "big").stdout == "a\\x1b[2Jb\tc\\u202ed\n"


def test_a_count_that_is_no_number_is_a_wrong_command_line(ctl: Ctl) -> None:
    assert ctl("logs", "big", "-n", "many").exit_code == 2


def test_following_prints_what_comes_until_the_source_ends(ctl: Ctl, operations: FakeOperations) -> None:
    for event in (
        LogEvent(lines=("one",), cursor="c:1", sources=("agent",)),
        LogEvent(note="node big has no stream to this server; waiting for it"),
        LogEvent(lines=("two",), cursor="c:2", marker="5 lines were overwritten"),
        LogEvent(ended=True),
    ):
        operations.logs.events.put_nowait(event)

    done = ctl("logs", "big", "-f", "-n", "7")

    assert done.exit_code == 0
    assert done.stdout == "one\ntwo\n"
    assert done.stderr.splitlines() == [
        "llmgw: node big has no stream to this server; waiting for it",
        "llmgw: [5 lines were overwritten]",
        "llmgw: node big is back",
        "llmgw: agent has ended",
    ]
    assert operations.logs.asked == [("big", "agent", 7, None)]


def test_following_what_cannot_be_followed_ends_with_1(ctl: Ctl, operations: FakeOperations) -> None:
    operations.logs.events.put_nowait(LogEvent(ended=True, error="it may be too old", sources=("agent",)))

    done = ctl("logs", "big", "-f")

    assert done.exit_code == 1
    assert done.stderr == "llmgw: it may be too old; sources: agent\n"


def test_following_as_json_prints_one_event_a_line(ctl: Ctl, operations: FakeOperations) -> None:
    operations.logs.events.put_nowait(LogEvent(lines=("one",), cursor="c:1"))
    operations.logs.events.put_nowait(LogEvent(ended=True, error="gone"))

    done = ctl("logs", "big", "-f", "--json")

    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["lines"] for event in events] == [["one"], []]
    assert events[1]["error"] == "gone"


class _Breaking(BaseHTTPRequestHandler):
    """Answers each connection with the next of `parts` and hangs up."""

    parts: list[bytes]
    paths: list[str]

    def do_GET(self) -> None:
        self.paths.append(self.path)
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        self.wfile.write(self.parts.pop(0))

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def breaking() -> Iterator[tuple[str, type[_Breaking]]]:
    handler = type("Handler", (_Breaking,), {"parts": [], "paths": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


def message(**given: Any) -> bytes:
    event = {"lines": [], "cursor": None, "marker": None, "note": None, "ended": False, "error": None}
    return b"data: " + json.dumps(event | {"sources": None} | given).encode() + b"\n\n"


def test_a_connection_that_breaks_is_made_again_and_goes_on_at_the_cursor(
    ctl: Ctl, breaking: tuple[str, type[_Breaking]]
) -> None:
    address, handler = breaking
    handler.parts += [
        b"retry: 1000\n\n" + message(lines=["one"], cursor="c:1"),
        message(lines=["two"], cursor="c:2") + message(ended=True),
    ]

    done = ctl("logs", "big", "-f", server=address)

    assert done.exit_code == 0
    assert done.stdout == "one\ntwo\n"
    assert done.stderr.splitlines() == [
        "llmgw: the server ended the stream; trying again",
        "llmgw: going on",
        "llmgw: agent has ended",
    ]
    assert [path.partition("cursor=")[2] for path in handler.paths] == ["", "c%3A1"]


def test_a_server_that_was_never_there_is_not_waited_for(ctl: Ctl) -> None:
    done = ctl("logs", "big", "-f", server="127.0.0.1:1")

    assert done.exit_code == 1
    assert "no server reached at" in done.stderr
