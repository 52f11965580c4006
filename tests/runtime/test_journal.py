import io
import logging
from collections.abc import Iterator

import pytest

from llmgw.runtime.journal import redact, set_up


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer [redacted]"),
        ("{'authorization': 'Bearer abc.def-ghi'}", "{'authorization': 'Bearer [redacted]'}"),
        ("authorization: abcdefgh", "authorization: [redacted]"),
        ("x-api-key: 0123456789", "x-api-key: [redacted]"),
        ('"api_key": "0123456789"', '"api_key": "[redacted]"'),
        ("asked with sk-llmgw-AbCd_ef-123 today", "asked with sk-llmgw-[redacted] today"),
        ("asked with sk-proj-AbCdef123 today", "asked with sk-[redacted] today"),
        ("HF_TOKEN=hf_AbCdEfGh1234", "HF_TOKEN=[redacted]"),
        ("downloading with hf_AbCdEfGh1234", "downloading with hf_[redacted]"),
        ("password=hunter2 user=me", "password=[redacted] user=me"),
    ],
)
def test_a_credential_is_cut_and_what_names_it_stays(line: str, shown: str) -> None:
    assert redact(line) == shown


@pytest.mark.parametrize(
    "line", ["task-list of 5 entries", "12 tokens were generated", "the token bucket is full", "disk-sk-1"]
)
def test_plain_words_are_left_alone(line: str) -> None:
    assert redact(line) == line


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
