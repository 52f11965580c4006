import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.ids import Generation, name_problem, replica_id, shard_id


@pytest.mark.parametrize("name", ["a", "gemma-270m", "Qwen/Qwen3-32B", "a.b:c_d+e", "9", "x" * 96])
def test_a_usable_name_has_no_problem(name: str) -> None:
    assert name_problem("model", name) is None


@pytest.mark.parametrize(
    "name", ["", "-a", ".a", "/a", "a b", "a\n", "ä", "x" * 97, "a\0", "../x", "a?b", "x" * 10_000]
)
def test_an_unusable_name_is_named_with_what_was_wanted(name: str) -> None:
    problem = name_problem("model", name)

    assert problem is not None
    assert problem.startswith(f"model name {name[:100]!r} is not usable: wanted 1 to 96 of letters, digits")


@pytest.mark.parametrize("name", ["a//b", "a/", "a/./b", "a/../b", "a/..", "a/."])
def test_a_name_that_browsers_would_shorten_is_refused(name: str) -> None:
    problem = name_problem("model", name)

    assert problem == (
        f"model name {name!r} has a part that is empty, . or ..; every part between slashes needs a name"
    )


def test_a_node_has_no_slash_in_its_name_wherever_it_comes_from() -> None:
    assert name_problem("node", "rack/07") == "node name 'rack/07' must not have a slash"


@pytest.mark.parametrize("name", ["install:llama.cpp", "fetch:0a1b"])
def test_a_name_that_log_sources_have_is_kept_for_them(name: str) -> None:
    problem = name_problem("node", name)

    assert problem is not None
    assert "is kept for log sources; choose another" in problem


def test_generations_are_ordered_by_epoch_then_counter_and_shown_with_a_point() -> None:
    assert Generation(1, 9) < Generation(2, 1) < Generation(2, 2)
    assert str(Generation(7, 3)) == "7.3"


NAMES = st.from_regex(r"[a-z][a-z0-9.]{0,5}", fullmatch=True)
NUMBERS = st.integers(0, 30)


@given(st.tuples(NAMES, NUMBERS, NUMBERS), st.tuples(NAMES, NUMBERS, NUMBERS))
def test_two_shards_never_share_an_id(one: tuple[str, int, int], other: tuple[str, int, int]) -> None:
    ids = [shard_id(replica_id(model, ordinal), rank) for model, ordinal, rank in (one, other)]

    assert (ids[0] == ids[1]) is (one == other)
