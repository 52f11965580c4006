from llmgw.core import errors
from llmgw.core.errors import BadInput, LlmgwError, Problem


def test_a_problem_says_its_place_before_its_message() -> None:
    assert str(Problem(("models", 0, "engine"), "no such engine")) == "models[0].engine: no such engine"
    assert str(Problem((), "an empty file")) == "an empty file"


def test_bad_input_carries_every_problem() -> None:
    problems = [Problem(("a",), "x"), Problem(("b",), "y")]

    error = BadInput("2 problems", problems)

    assert (str(error), error.problems) == ("2 problems", tuple(problems))


def test_every_error_has_a_code_of_its_own_and_stands_in_the_tree_at_the_top() -> None:
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, LlmgwError)]

    codes = [kind.code for kind in kinds]

    assert len(set(codes)) == len(codes)
    for kind in kinds:
        assert kind.__name__ in (errors.__doc__ or "")
        if kind is not LlmgwError:
            assert kind.code in (errors.__doc__ or "")
