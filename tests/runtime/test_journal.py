import io
import logging
from collections.abc import Iterator

import pytest

from llmgw.runtime.journal import set_up


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    written = io.StringIO()
    set_up(stream=written)
    yield written
    root.handlers[:], _ = before
    root.setLevel(before[1])


def test_a_secret_in_an_exception_is_cut_too(stream: io.StringIO) -> None:
    try:
        raise ValueError("refused: Bearer abcdefgh12345678")
    except ValueError:
        logging.getLogger("llmgw.test").exception("it failed")

    assert "abcdefgh" not in stream.getvalue()
    assert "[redacted]" in stream.getvalue()


def test_a_line_break_in_a_message_never_begins_something_that_looks_like_a_record(
    stream: io.StringIO,
) -> None:
    logging.getLogger("llmgw.test").info("model %s", "x\n2030-01-01T00:00:00 INFO llmgw: forged")

    lines = stream.getvalue().splitlines()
    assert sum("INFO llmgw" in line and not line.startswith(" ") for line in lines) == 1


def test_lines_made_for_other_handlers_are_not_shown(stream: io.StringIO) -> None:
    kept = io.StringIO()
    set_up("WARNING", stream, also_made="llmgw.test.agent")
    logging.getLogger().addHandler(logging.StreamHandler(kept))

    logging.getLogger("llmgw.test.agent.shard").info("started")
    logging.getLogger("llmgw.test.server").info("nobody asks for this")
    logging.getLogger("llmgw.test.agent.shard").warning("failed")

    assert kept.getvalue() == "started\nfailed\n"
    assert [line.rpartition(": ")[2] for line in stream.getvalue().splitlines()] == ["failed"]
