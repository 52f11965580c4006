"""Arguments read as argparse reads them."""

import pytest

from llmgw.engines.flags import has, last_number, last_share, refusal, spelled, values

REFUSED = {"--host": "no", "--model-path": "never", "-n": "not so"}


@pytest.mark.parametrize(
    ("given", "flag"),
    [
        ("--max_model_len", "--max-model-len"),
        ("--tp=2", "--tp"),
        ("-tp", "-tp"),
        ("-a_b", "-a_b"),
        ("8", "8"),
    ],
)
def test_a_flag_is_spelled_as_the_engine_compares_it(given: str, flag: str) -> None:
    assert spelled(given) == flag


def test_values_follow_their_flag_or_are_joined_to_it() -> None:
    args = ("--tp", "2", "--tp=4", "--pp", "3", "--tp")

    assert list(values(args, ("--tp",))) == ["2", "4"]
    assert has(args, ("--pp", "--dp"))
    assert not has(args, ("--dp",))


def test_the_last_number_counts_and_what_is_none_does_not() -> None:
    assert last_number(("--tp", "2", "--tp", "8", "--tp", "auto"), ("--tp",)) == 8
    assert last_number(("--tp", "-1"), ("--tp",)) is None
    assert last_number((), ("--tp",)) is None


@pytest.mark.parametrize(
    ("text", "share"), [("0.5", 0.5), ("1", 1.0), ("0", None), ("1.5", None), ("nan", None), ("x", None)]
)
def test_a_share_is_more_than_nothing_and_at_most_the_whole(text: str, share: float | None) -> None:
    assert last_share(("--s", text), ("--s",)) == share


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ("--host", "argument '--host' is refused: no"),
        ("--model_path=/x", "argument '--model_path=/x' is refused: never"),
        ("-n", "argument '-n' is refused: not so"),
        ("--ho", "argument '--ho' may be taken for --host, which is refused: no"),
        ("a\0b", r"argument 'a\x00b' holds a NUL byte, which no program can be given; remove it"),
    ],
)
def test_what_is_refused_is_named_with_the_reason(given: str, problem: str) -> None:
    assert refusal(("--dtype", "half", given), REFUSED) == problem


@pytest.mark.parametrize("given", ["--dtype", "--hostname", "--", "value", "-x", "--model"])
def test_what_is_not_refused_is_fine(given: str) -> None:
    assert refusal((given,), REFUSED, fine={"--model"}) is None
