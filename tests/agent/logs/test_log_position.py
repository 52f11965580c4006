import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.logs.position import Position, read_position
from llmgw.core.fleet.logs import is_cursor


@given(
    run=st.from_regex(r"[a-z0-9-]{1,40}", fullmatch=True),
    offset=st.integers(0, 2**60),
    anchor=st.integers(0, 2**32 - 1),
    skipping=st.booleans(),
)
def test_a_position_comes_back_from_its_text_which_is_a_cursor(
    run: str, offset: int, anchor: int, skipping: bool
) -> None:
    position = Position(run, offset, anchor, skipping)

    assert read_position(str(position)) == position
    assert is_cursor(str(position))


@pytest.mark.parametrize(
    "text",
    ["", "a", "a:b:c", "a:1", "a:1:g", "a:-1:0", "A:1:0", "a:1:0\n", "a:1:0++", "a:" + "9" * 20 + ":0"],
)
def test_a_text_that_is_no_position_is_none(text: str) -> None:
    assert read_position(text) is None
