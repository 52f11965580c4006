"""The part of /v1 that the data path does not take, and the router as a whole."""

import json

import pytest
from fakes.engine import Act, FakeEngine
from fakes.gateway import Gateway, endpoint, key_record, until
from fakes.http_client import KEY, get, post

from llmgw.core.accounts.access import digest_of
from llmgw.core.routing.table import ModelRoute


async def test_the_models_that_the_key_may_use_are_listed() -> None:
    async with Gateway() as gateway:
        gateway.serve(
            ModelRoute(name="a", created_s=7, aliases=("other-a",)),
            ModelRoute(name="b"),
            ModelRoute(name="c"),
        )
        everything = await gateway.ask(get("/v1/models"))
        gateway.router.set_keys({digest_of(KEY): key_record(models=("a", "c"))})
        some = await gateway.ask(get("/v1/models"))

    assert json.loads(some.body) == {
        "object": "list",
        "data": [
            {"id": "a", "object": "model", "created": 7, "owned_by": "llmgw"},
            {"id": "c", "object": "model", "created": 0, "owned_by": "llmgw"},
        ],
    }
    assert [model["id"] for model in json.loads(everything.body)["data"]] == ["a", "b", "c"]
    assert some.get(b"x-request-id")


async def test_one_model_is_shown_by_its_name_or_alias_whatever_is_in_them() -> None:
    async with Gateway() as gateway:
        gateway.serve(ModelRoute(name="org/a:b", aliases=("small",)))
        answers = [await gateway.ask(get(f"/v1/models/{name}")) for name in ("org/a:b", "small", "org%2Fa:b")]
        missing = await gateway.ask(get("/v1/models/none"))
        gateway.router.set_keys({digest_of(KEY): key_record(models=())})
        denied = await gateway.ask(get("/v1/models/small"))

    assert [json.loads(answer.body)["id"] for answer in answers] == ["org/a:b"] * 3
    assert (missing.status, missing.error()["code"]) == (404, "model_not_found")
    assert denied.status == 403


async def test_the_models_are_shown_to_nobody_without_a_key() -> None:
    async with Gateway() as gateway:
        unknown = await gateway.ask(get("/v1/models", key="sk-llmgw-wrong"))
        gateway.router.set_keys(None)
        away = await gateway.ask(get("/v1/models"))

    assert (unknown.status, unknown.get(b"www-authenticate")) == (401, b"Bearer")
    assert (away.status, away.get(b"retry-after")) == (503, b"5")


async def test_what_is_not_served_is_refused_in_the_usual_shape() -> None:
    async with Gateway() as gateway:
        unknown = await gateway.ask(post(path="/v1/unheard"))
        wrong = await gateway.ask(get("/v1/chat/completions"))
        posted = await gateway.ask(post(path="/v1/models"))

    assert (unknown.status, unknown.error()["code"]) == (404, "unknown_url")
    assert "/v1/chat/completions" in unknown.error()["message"]
    assert (wrong.status, wrong.get(b"allow")) == (405, b"POST")
    assert (posted.status, posted.get(b"allow")) == (405, b"GET")


@pytest.mark.parametrize("target", ["/v1/chat/completions#part", "/v1/chat%2fcompletions"])
async def test_a_target_that_only_stands_for_a_hot_route_is_told_how_to_write_it(target: str) -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(path=target))

    assert (answer.status, answer.error()["code"]) == (404, "unknown_url")
    assert answer.error()["message"].endswith("; write it as /v1/chat/completions")


async def test_closing_ends_what_is_under_way_and_says_so() -> None:
    async with (
        FakeEngine([Act.HOLD]) as engine,
        Gateway(engine) as gateway,
        gateway.client() as client,
    ):
        await client.send(post(b'{"model": "gemma", "stream": true}', headers=("X-Request-Id: mine",)))
        await until(lambda: engine.held == 1)
        (request,) = gateway.router.in_flight()
        await gateway.router.close()
        answer = await client.read_answer()
        closed = await client.is_closed()
        await until(lambda: engine.open == 0)

        assert (request.request_id, request.asked, request.phase) == ("mine", "gemma", "waiting")
        assert request.key == KEY[:12]
        assert (answer.status, answer.error()["code"]) == (503, "server_shutting_down")
        assert closed
        assert gateway.outstanding() == [0]


async def test_the_requests_under_way_name_who_has_them() -> None:
    async with FakeEngine([Act.HOLD]) as engine, Gateway() as gateway, gateway.client() as client:
        gateway.serve(
            ModelRoute(name="big", fallback=("gemma",)),
            ModelRoute(name="gemma", endpoints=(endpoint(engine),)),
        )
        await client.send(post(b'{"model": "big"}'))
        await until(lambda: engine.held == 1)
        (request,) = gateway.router.in_flight()

    assert (request.asked, request.model, request.replica) == ("big", "gemma", "gemma.0")
