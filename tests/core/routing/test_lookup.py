"""Which model answers, or why none does."""

from collections.abc import Callable

from llmgw.core.ids import Generation
from llmgw.core.routing.lookup import answering, find_answerer, find_model
from llmgw.core.routing.openai import Refused
from llmgw.core.routing.table import CHAT, COMPLETIONS, EMBEDDINGS, Endpoint, ModelRoute, build_table


def ready(model: str, tasks: tuple[str, ...] = (CHAT, COMPLETIONS), profile: str = "cpu") -> Endpoint:
    return Endpoint(
        replica=f"{model}.0",
        model=model,
        generation=Generation(1, 1),
        node="node-1",
        host="127.0.0.1",
        port=1,
        engine="llama.cpp",
        profile=profile,
        tasks=tasks,
    )


def anyone(model: str) -> bool:
    return True


def only(*models: str) -> Callable[[str], bool]:
    return lambda model: model in models


def refused(found: ModelRoute | Refused) -> Refused:
    assert isinstance(found, Refused)
    return found


def test_a_model_is_found_by_its_name_and_by_an_alias() -> None:
    route = ModelRoute(name="gemma", aliases=("small",))
    table = build_table((route,))

    assert find_model(table, "gemma", anyone) is route
    assert find_model(table, "small", only("gemma")) is route


def test_a_model_that_is_not_there_and_one_that_is_not_allowed_are_told_apart() -> None:
    table = build_table((ModelRoute(name="gemma", aliases=("small",)),))

    missing = refused(find_model(table, "none", anyone))
    denied = refused(find_model(table, "small", only("small")))

    assert (missing.status, missing.code, missing.param) == (404, "model_not_found", "model")
    assert "'none'" in missing.message
    assert (denied.status, denied.code, denied.type) == (403, "model_not_allowed", "permission_error")


def test_a_model_answers_for_itself_where_one_of_its_endpoints_does() -> None:
    chat, vectors = ready("gemma"), ready("gemma", (EMBEDDINGS,))
    route = ModelRoute(name="gemma", endpoints=(chat, vectors))
    table = build_table((route,))

    assert answering(route, EMBEDDINGS) == (vectors,)
    assert find_answerer(table, route, EMBEDDINGS, anyone) is route


def test_a_task_that_nothing_answers_is_refused_with_who_serves_and_what_is_answered() -> None:
    route = ModelRoute(
        name="gemma-270m",
        endpoints=(ready("gemma-270m"), ready("gemma-270m")),
        fallback=("other",),
    )
    table = build_table((route, ModelRoute(name="other", endpoints=(ready("other", (EMBEDDINGS,)),))))

    found = refused(find_answerer(table, route, EMBEDDINGS, anyone))

    assert (found.status, found.retry_after_s) == (400, None)
    assert found.message.startswith(
        "model 'gemma-270m' is served by llama.cpp (profile 'cpu') which does not answer /v1/embeddings when started "
        "so; it answers: chat/completions, completions."
    )


def test_an_endpoint_that_answers_nothing_is_said_to() -> None:
    route = ModelRoute(name="gemma", endpoints=(ready("gemma", ()),))

    found = refused(find_answerer(build_table((route,)), route, CHAT, anyone))

    assert "it answers: nothing under /v1" in found.message


def test_the_first_fallback_that_can_answer_does() -> None:
    route = ModelRoute(name="big", fallback=("gone", "empty", "vectors", "secret", "small", "late"))
    small = ModelRoute(name="small", endpoints=(ready("small"),))
    table = build_table(
        (
            route,
            ModelRoute(name="empty"),
            ModelRoute(name="vectors", endpoints=(ready("vectors", (EMBEDDINGS,)),)),
            ModelRoute(name="secret", endpoints=(ready("secret"),)),
            small,
            ModelRoute(name="late", endpoints=(ready("late"),)),
        )
    )

    allowed = only("big", "empty", "vectors", "small", "late")

    assert find_answerer(table, route, CHAT, allowed) is small


def test_when_nothing_is_ready_the_refusal_says_why_for_each() -> None:
    route = ModelRoute(
        name="big",
        fallback=("gone", "empty", "vectors", "secret"),
        why_not="no node has 40 GiB free",
        retry_after_s=12.5,
    )
    table = build_table(
        (
            route,
            ModelRoute(name="empty"),
            ModelRoute(name="vectors", endpoints=(ready("vectors", (EMBEDDINGS,)),)),
            ModelRoute(name="secret", endpoints=(ready("secret"),)),
        )
    )

    found = refused(find_answerer(table, route, CHAT, only("big", "empty", "vectors")))

    assert (found.status, found.code, found.retry_after_s) == (503, "model_not_ready", 12.5)
    assert found.message == (
        "model 'big' cannot be served now: no node has 40 GiB free; fallback 'gone' is not in the catalog; "
        "fallback 'empty' has no replica ready either; fallback 'vectors' does not answer /v1/chat/completions; "
        "fallback 'secret' is not allowed to this API key; try again in 13 s"
    )


def test_a_model_that_says_nothing_is_said_to_have_no_replica() -> None:
    route = ModelRoute(name="big")

    assert "no replica is ready" in refused(find_answerer(build_table((route,)), route, CHAT, anyone)).message
