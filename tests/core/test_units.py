from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.units import GIB, MIB, TIB, parse_size, parse_time, show_bytes, show_seconds, show_since


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("0", 0),
        ("5", 5),
        ("24g", 24 * GIB),
        ("24G", 24 * GIB),
        ("24gb", 24 * GIB),
        ("24GiB", 24 * GIB),
        (" 512 m ", 512 * MIB),
        ("1.5t", int(1.5 * TIB)),
        ("10k", 10240),
        ("10b", 10),
    ],
)
def test_sizes_are_read_in_binary_units(text: str, count: int) -> None:
    assert parse_size(text) == count


@pytest.mark.parametrize("text", ["", "g", "-1g", "1e3", "24 gigabytes", "1..5g", "9" * 30 + "t", "9" * 400])
def test_what_is_no_size_is_none(text: str) -> None:
    assert parse_size(text) is None


@pytest.mark.parametrize(
    ("text", "seconds"), [("15s", 15), ("5m", 300), ("24h", 86400), ("90d", 7776000), ("250ms", 0.25)]
)
def test_times_are_read_as_seconds(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


@pytest.mark.parametrize("text", ["", "5", "s", "-5s", "5 sec", "5w", "9" * 400 + "d"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_time(text) is None


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (5 * MIB, "5.0 MiB"),
        (int(23.4 * GIB), "23.4 GiB"),
        (2 * TIB, "2.0 TiB"),
        (-2 * GIB, "-2.0 GiB"),
    ],
)
def test_bytes_are_shown_in_binary_units_and_unknown_is_a_dash(count: int | None, text: str) -> None:
    assert show_bytes(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-3, "0 s"),
        (8.9, "8 s"),
        (119, "119 s"),
        (240, "4 min"),
        (7500, "2 h 5 min"),
        (273600, "3 d 4 h"),
    ],
)
def test_spans_are_shown_as_people_say_them(seconds: float, text: str) -> None:
    assert show_seconds(seconds) == text


def test_how_long_ago_something_was_is_shown_as_a_span() -> None:
    at = datetime(2030, 1, 1, tzinfo=UTC)

    assert show_since(at - timedelta(minutes=4), at) == "4 min"


@given(st.text(max_size=20))
def test_no_text_breaks_the_readers(text: str) -> None:
    size, time = parse_size(text), parse_time(text)

    assert size is None or 0 <= size < 2**62
    assert time is None or 0 <= time < 2**62
