from typing import Any

import pytest
from fakes.catalogs import a_catalog, a_model, a_profile, catalog_data
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.catalog import Catalog, Change, check_names, compare, merge, read_catalog

ENGINES = ("llama.cpp",)


def _problems(data: object, beside: Catalog | None = None) -> dict[str, str]:
    catalog, problems = read_catalog(data, ENGINES, beside=beside)
    assert (catalog is None) == bool(problems)
    return {problem.where(): problem.message for problem in problems}


def test_a_catalog_is_read_with_its_defaults() -> None:
    catalog, problems = read_catalog(catalog_data({"name": "gemma"}), ENGINES)

    assert problems == []
    assert catalog == a_catalog(a_model("gemma"))


def test_everything_a_catalog_can_say_is_read() -> None:
    data = catalog_data(
        {
            "name": "gemma",
            "aliases": ["small"],
            "replicas": 2,
            "fallback": ["other"],
            "profiles": [
                {
                    "context": 4096,
                    "parallel": 4,
                    "gpus": 0,
                    "min_memory_gb": 2,
                    "node_selector": {"rack": "b2"},
                    "args": ["-fa", "on"],
                    "env": {"A": "b"},
                }
            ],
        },
        {"name": "other"},
    )

    catalog, problems = read_catalog(data, ENGINES)

    assert problems == []
    assert catalog is not None
    profile = a_profile(
        context=4096,
        parallel=4,
        min_memory_gb=2.0,
        node_selector={"rack": "b2"},
        args=("-fa", "on"),
        env={"A": "b"},
    )
    assert catalog.models[0] == a_model(
        aliases=("small",), replicas=2, fallback=("other",), profiles=(profile,)
    )


@pytest.mark.parametrize("data", [None, {}, {"models": []}])
def test_an_empty_file_is_an_empty_catalog(data: object) -> None:
    assert read_catalog(data, ENGINES) == (Catalog(), [])


@pytest.mark.parametrize(
    ("model", "where", "said"),
    [
        ({"replicsa": 2}, "models[0].replicsa", "unknown key 'replicsa'; did you mean 'replicas'?"),
        ({"profiles": [{"contxt": 1}]}, "models[0].profiles[0].contxt", "did you mean 'context'?"),
        (
            {"profiles": [{"engine": "lama.cpp"}]},
            "models[0].profiles[0].engine",
            "no engine is called 'lama.cpp'; did you mean 'llama.cpp'?",
        ),
        ({"profiles": [{"engine": "vllm"}]}, "models[0].profiles[0].engine", "known: llama.cpp"),
        ({"replicas": "two"}, "models[0].replicas", "wanted a whole number, found 'two'"),
        ({"replicas": 1001}, "models[0].replicas", "wanted 0 to 1000, found 1001"),
        ({"replicas": -1}, "models[0].replicas", "wanted 0 to 1000, found -1"),
        ({"profiles": []}, "models[0].profiles", "a model needs at least one profile, found none"),
        ({"name": "bad name"}, "models[0].name", "model name 'bad name' is not usable"),
        ({"name": "install:x"}, "models[0].name", "kept for log sources"),
        ({"aliases": ["-x"]}, "models[0].aliases[0]", "model name '-x' is not usable"),
        ({"aliases": ["gemma"]}, "models[0].aliases[0]", "is used twice, first by model 'gemma'"),
        ({"fallback": ["gemma"]}, "models[0].fallback[0]", "cannot stand in for itself"),
        ({"fallback": ["gema"]}, "models[0].fallback[0]", "no model is called 'gema'; did you mean 'gemma'?"),
        ({"profiles": [{}, {}]}, "models[0].profiles[1].name", "two profiles are called 'cpu'"),
        ({"profiles": [{"name": " "}]}, "models[0].profiles[0].name", "profile name ' ' is not usable"),
        ({"profiles": [{"weights": "gemma"}]}, "models[0].profiles[0].weights", "have no scheme"),
        ({"profiles": [{"context": -1}]}, "models[0].profiles[0].context", "wanted 0 to 67108864, found -1"),
        ({"profiles": [{"parallel": 0}]}, "models[0].profiles[0].parallel", "wanted 1 to 1024, found 0"),
        ({"profiles": [{"gpus": 65}]}, "models[0].profiles[0].gpus", "wanted 0 to 64, found 65"),
        ({"profiles": [{"min_memory_gb": -2}]}, "models[0].profiles[0].min_memory_gb", "wanted 0 to 1048576"),
        (
            {"profiles": [{"min_disk_gb": 9e6}]},
            "models[0].profiles[0].min_disk_gb",
            "wanted 0 to 1048576 GiB, found 9000000",
        ),
        (
            {"profiles": [{"min_memory_gb": float("nan")}]},
            "models[0].profiles[0].min_memory_gb",
            "wanted 0 to 1048576",
        ),
        ({"profiles": [{"env": {"A=B": "c"}}]}, "models[0].profiles[0].env.A=B", "without = and NUL"),
        ({"profiles": [{"env": {"A": "c\0"}}]}, "models[0].profiles[0].env.A", "without = and NUL"),
        ({"profiles": [{"env": {"A": 1}}]}, "models[0].profiles[0].env.A", "wanted text, found 1"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_to_write(
    model: dict[str, Any], where: str, said: str
) -> None:
    problems = _problems(catalog_data(model))

    assert said in problems[where]


def test_every_problem_is_found_at_once() -> None:
    data = catalog_data({"replicas": -1}, {"name": "gemma", "profiles": [{"parallel": 0, "gpus": -1}]})

    assert set(_problems(data)) == {
        "models[1].name",
        "models[0].replicas",
        "models[1].profiles[0].parallel",
        "models[1].profiles[0].gpus",
    }


def test_engines_are_not_checked_when_nobody_says_which_there_are() -> None:
    catalog, problems = read_catalog(catalog_data({"profiles": [{"engine": "any"}]}))

    assert problems == []
    assert catalog is not None


def test_a_fallback_may_name_an_alias_and_a_model_that_stays_stored() -> None:
    stored = a_catalog(a_model("other", aliases=("big",)))

    assert _problems(catalog_data({"fallback": ["big"]}), beside=stored) == {}
    assert _problems(catalog_data({"aliases": ["small"]}, {"name": "b", "fallback": ["small"]})) == {}
    assert (
        "no model is called 'big'" in _problems(catalog_data({"fallback": ["big"]}))["models[0].fallback[0]"]
    )


def test_a_name_that_a_stored_model_has_is_taken_unless_the_file_has_that_model_itself() -> None:
    stored = a_catalog(a_model("other", aliases=("small",)))

    clash = _problems(catalog_data({"aliases": ["small"]}), beside=stored)
    moved = _problems(catalog_data({"aliases": ["small"]}, {"name": "other"}), beside=stored)

    assert "first by the stored model 'other'" in clash["models[0].aliases[0]"]
    assert moved == {}


def test_taking_away_the_name_that_a_stored_model_falls_back_to_is_a_problem() -> None:
    stored = a_catalog(a_model("gemma", aliases=("small",)), a_model("other", fallback=("small",)))

    problems = _problems(catalog_data({"name": "gemma"}), beside=stored)

    assert "the stored model 'other', which is not in this file, falls back to 'small'" in problems[""]


def test_names_of_a_whole_catalog_can_be_checked_alone() -> None:
    catalog = a_catalog(a_model("a", aliases=("b",)), a_model("b", fallback=("c",)))

    assert [problem.where() for problem in check_names(catalog)] == [
        "models[1].name",
        "models[1].fallback[0]",
    ]
    assert check_names(a_catalog(a_model("a"))) == []


def test_a_fingerprint_is_the_same_everywhere_and_for_ever() -> None:
    # Replicas of an older server carry these; a change here would call every one of them stale.
    full = a_profile(context=4096, parallel=4, args=("-fa", "on"), env={"B": "2", "A": "1"})

    assert a_profile().fingerprint() == "c76350ddd16b048d"
    assert full.fingerprint() == "41d3b2da6198f96e"


def test_a_fingerprint_changes_with_what_changes_how_the_engine_runs_and_with_nothing_else() -> None:
    plain = a_profile().fingerprint()

    for change in (
        {"engine": "vllm"},
        {"weights": "file:///b"},
        {"context": 1},
        {"parallel": 1},
        {"gpus": 1},
        {"args": ("x",)},
        {"env": {"A": "b"}},
    ):
        assert a_profile(**change).fingerprint() != plain
    for same in ({"name": "b"}, {"node_selector": {"rack": "b2"}}, {"min_memory_gb": 3.0}):
        assert a_profile(**same).fingerprint() == plain


def test_the_order_of_variables_does_not_change_a_fingerprint() -> None:
    one, other = a_profile(env={"A": "1", "B": "2"}), a_profile(env={"B": "2", "A": "1"})

    assert one.fingerprint() == other.fingerprint()


def test_a_running_copy_finds_the_profile_it_was_started_from() -> None:
    model = a_model(profiles=(a_profile(), a_profile(name="b", context=1)))

    assert model.profile_of(model.profiles[1].fingerprint()) == model.profiles[1]
    assert model.profile_of("0123456789abcdef") is None
    assert model.profile_of(None) is None


def test_a_model_is_found_by_its_name_and_not_by_an_alias() -> None:
    catalog = a_catalog(a_model("gemma", aliases=("small",)))

    assert catalog.model("gemma") == catalog.models[0]
    assert catalog.model("small") is None


STORED = a_catalog(a_model("a"), a_model("b"), a_model("c"))
WANTED = a_catalog(a_model("b", replicas=3), a_model("d"), a_model("c"))


def test_an_apply_creates_and_changes_and_keeps_what_the_file_does_not_name() -> None:
    assert compare(STORED, WANTED, prune=False) == Change(
        created=("d",), changed=("b",), unchanged=("c",), kept=("a",)
    )
    assert [m.name for m in merge(STORED, WANTED, prune=False).models] == ["a", "b", "c", "d"]


def test_a_prune_removes_what_the_file_does_not_name() -> None:
    assert compare(STORED, WANTED, prune=True) == Change(
        created=("d",), changed=("b",), unchanged=("c",), removed=("a",)
    )
    assert [m.name for m in merge(STORED, WANTED, prune=True).models] == ["b", "c", "d"]


MODELS = st.lists(
    st.builds(a_model, name=st.sampled_from("abcdef"), replicas=st.integers(0, 2)),
    unique_by=lambda model: model.name,
).map(lambda models: a_catalog(*models))


@given(MODELS, MODELS, st.booleans())
def test_applying_the_same_twice_changes_nothing_the_second_time(
    stored: Catalog, wanted: Catalog, prune: bool
) -> None:
    after = merge(stored, wanted, prune=prune)

    again = compare(after, wanted, prune=prune)

    assert (again.created, again.changed, again.removed) == ((), (), ())
    assert merge(after, wanted, prune=prune) == after


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=20,
)
KEYS = st.sampled_from(["name", "aliases", "replicas", "fallback", "profiles", "engine", "weights", "env"])


@given(ANYTHING | st.fixed_dictionaries({"models": st.lists(st.dictionaries(KEYS, ANYTHING), max_size=3)}))
def test_whatever_a_file_holds_is_read_or_refused_with_a_reason(data: object) -> None:
    catalog, problems = read_catalog(data, ENGINES)

    assert (catalog is None) == bool(problems)
    assert all(problem.message for problem in problems)
