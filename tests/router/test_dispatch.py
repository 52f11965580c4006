"""The life of one request over real sockets: what passes, what is refused, what is tried again."""

import asyncio
import json
import random
import socket
from typing import Any

import pytest
from fakes.engine import LAST_CHUNK, SSE_HEAD, Act, FakeEngine, Script, chunk, plain
from fakes.gateway import Gateway, endpoint, key_record, until
from fakes.http_client import KEY, get, post

from llmgw.core.accounts.access import Scope, digest_of
from llmgw.core.ids import Generation
from llmgw.core.routing.table import CHAT, EMBEDDINGS, ModelRoute, RouteTable

EVENT = b'data: {"choices": [{"delta": {"content": "hi"}}]}\n\n'
DONE = b"data: [DONE]\n\n"


def free_port() -> int:
    with socket.socket() as made:
        made.bind(("127.0.0.1", 0))
        return int(made.getsockname()[1])


# What passes.


async def test_an_answer_arrives_as_the_engine_gave_it() -> None:
    body = b'{"choices": [],  "odd":\n[1]}'
    async with FakeEngine([plain(body, extra=b"x-engine: yes\r\n")]) as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(b'{"model":"gemma" , "x": 1}', headers=("X-Request-Id: mine-1",)))

    assert answer.status == 200
    assert answer.body == body
    assert answer.get(b"x-engine") == b"yes"
    assert answer.get(b"x-request-id") == b"mine-1"
    assert answer.get(b"x-llmgw-replica") == b"gemma.0"
    assert answer.get(b"x-llmgw-model") == b"gemma"
    assert engine.requests[0].body == b'{"model":"gemma" , "x": 1}'
    assert engine.requests[0].line == b"POST /v1/chat/completions HTTP/1.1"


async def test_the_query_of_a_request_passes_too() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(path="/v1/completions?api-version=1"))

    assert answer.status == 200
    assert engine.requests[0].line == b"POST /v1/completions?api-version=1 HTTP/1.1"


async def test_credentials_and_hop_by_hop_fields_stay_here_and_others_pass() -> None:
    headers = (
        "X-Api-Key: secret",
        "Cookie: secret",
        "Proxy-Authorization: secret",
        "Connection: keep-alive, X-Private",
        "X-Private: secret",
        "Accept-Encoding: gzip, br",
        "TE: trailers",
        "OpenAI-Organization: passes",
    )
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        await gateway.ask(post(headers=headers))

    seen = engine.requests[0]
    names = [name for name, _ in seen.headers]
    assert not {b"authorization", b"x-api-key", b"cookie", b"proxy-authorization", b"te", b"x-private"} & set(
        names
    )
    assert not any(b"secret" in value or KEY.encode() in value for _, value in seen.headers)
    assert seen.values(b"openai-organization") == [b"passes"]
    assert seen.values(b"accept-encoding") == [b"identity"]
    assert seen.values(b"host") == [b"127.0.0.1:%d" % engine.port]
    assert len(names) == len(set(names))


async def test_fields_that_the_engines_connection_names_are_dropped() -> None:
    extra = b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nX-Request-Id: theirs\r\n"
    async with FakeEngine([plain(b"{}", extra=extra)]) as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(headers=("X-Request-Id: mine",)))

    names = [name for name, _ in answer.headers]
    assert not {b"connection", b"x-hop", b"keep-alive"} & set(names)
    assert [value for name, value in answer.headers if name == b"x-request-id"] == [b"mine"]


async def test_an_insane_request_id_is_replaced() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(headers=(f"X-Request-Id: {'x' * 300}",)))

    assert (answer.get(b"x-request-id") or b"").startswith(b"req-")
    assert engine.requests[0].values(b"x-request-id") == [answer.get(b"x-request-id")]


async def test_a_stream_arrives_chunk_by_chunk_while_it_goes_on() -> None:
    script: Script = [SSE_HEAD, chunk(EVENT), Act.HOLD, chunk(DONE), LAST_CHUNK]
    async with (
        FakeEngine(script) as engine,
        Gateway(engine) as gateway,
        gateway.client() as client,
    ):
        await client.send(post(b'{"model": "gemma", "stream": true}'))
        status, headers = await client.read_head()
        first = await client.read_chunk()
        under_way = gateway.router.in_flight()
        engine.released.set()
        rest = await client.read_chunk()
        end = await client.read_chunk()
        again = await client.ask(post())

    fields = dict(headers)
    assert status == 200
    assert fields[b"content-type"] == b"text/event-stream"
    assert fields[b"cache-control"] == b"no-cache"
    assert fields[b"x-accel-buffering"] == b"no"
    assert (first, rest, end) == (EVENT, DONE, b"")
    assert [(r.model, r.phase, r.stream, r.replica) for r in under_way] == [
        ("gemma", "answering", True, "gemma.0")
    ]
    assert again.status == 200


async def test_an_engine_that_answers_an_error_to_a_stream_keeps_its_status_and_body() -> None:
    async with FakeEngine([plain(b'{"error": 1}', status=422)]) as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(b'{"model": "gemma", "stream": true}'))

    assert (answer.status, answer.body) == (422, b'{"error": 1}')


async def test_an_answer_without_a_length_ends_with_its_connection() -> None:
    script: Script = [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n",
        b'{"a":',
        b" 1}",
        Act.CLOSE,
    ]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post())

    assert (answer.status, answer.body) == (200, b'{"a": 1}')


async def test_an_http_1_0_client_gets_a_stream_without_chunks() -> None:
    script: Script = [SSE_HEAD, chunk(EVENT), chunk(DONE), LAST_CHUNK]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(version="1.0"))

    assert answer.get(b"transfer-encoding") is None
    assert answer.get(b"connection") == b"close"
    assert answer.body == EVENT + DONE


async def test_an_interim_answer_of_the_engine_is_nobodys_business() -> None:
    async with (
        FakeEngine([b"HTTP/1.1 100 Continue\r\n\r\n", plain(b"{}")]) as engine,
        Gateway(engine) as gateway,
    ):
        answer = await gateway.ask(post())

    assert (answer.status, answer.body) == (200, b"{}")


async def test_requests_use_the_engines_connection_again() -> None:
    """The parser forgets whether to keep a connection once a message is over; asking it too late costs a connect."""
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        for _ in range(20):
            assert (await client.ask(post())).status == 200

    assert len(engine.requests) == 20
    assert engine.accepted == 1


async def test_a_stream_leaves_the_engines_connection_fit_for_the_next_request() -> None:
    script: Script = [SSE_HEAD, chunk(EVENT), chunk(DONE), LAST_CHUNK]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway, gateway.client() as client:
        for _ in range(5):
            assert (await client.ask(post())).body == EVENT + DONE
        await until(lambda: gateway.outstanding() == [0])

    assert engine.accepted == 1


async def test_an_engine_that_keeps_its_answer_open_after_done_does_not_keep_the_client() -> None:
    script: Script = [SSE_HEAD, chunk(EVENT), chunk(DONE), Act.HOLD]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post())
        await until(lambda: engine.open == 0)

        assert answer.body == EVENT + DONE
        assert gateway.outstanding() == [0]


# What is refused.


async def test_a_request_without_a_known_key_learns_nothing_else() -> None:
    async with FakeEngine() as engine, Gateway(engine, max_body_bytes=100) as gateway:
        for key in (None, "sk-llmgw-other"):
            for body in (b"not json", b'{"model": "none"}', b"x" * 1000):
                answer = await gateway.ask(post(body, key=key))
                assert answer.status == 401
                assert answer.error()["code"] == ("missing_api_key" if key is None else "invalid_api_key")
                assert answer.get(b"x-request-id")

    assert engine.requests == []


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "invalid_body"),
        (b"not json", 400, "invalid_body"),
        (b"[1]", 400, "invalid_body"),
        (b"{}", 400, "missing_model"),
        (b'{"model": 7}', 400, "missing_model"),
        (b'{"model": "none"}', 404, "model_not_found"),
    ],
)
async def test_a_body_that_names_no_model_here_is_refused(body: bytes, status: int, code: str) -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        refused = await client.ask(post(body))
        served = await client.ask(post())

    assert (refused.status, refused.error()["code"]) == (status, code)
    assert served.status == 200


async def test_a_model_that_the_key_does_not_allow_is_refused() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        gateway.router.set_keys({digest_of(KEY): key_record(models=("other",))})
        answer = await gateway.ask(post())

    assert answer.status == 403
    assert answer.error()["code"] == "model_not_allowed"


async def test_an_admin_key_may_infer() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        gateway.router.set_keys({digest_of(KEY): key_record(scope=Scope.ADMIN)})
        answer = await gateway.ask(post())

    assert answer.status == 200


async def test_a_key_store_that_cannot_be_read_is_not_the_clients_fault() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        gateway.router.set_keys(None)
        answer = await gateway.ask(post())

    assert answer.status == 503
    assert answer.get(b"retry-after") == b"5"
    assert answer.get(b"retry-after-ms") == b"5000"


async def test_a_coded_body_is_refused() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        coded = await gateway.ask(post(b"\x1f\x8b", headers=("Content-Encoding: gzip",)))
        identity = await gateway.ask(post(headers=("Content-Encoding: identity",)))

    assert (coded.status, coded.error()["code"]) == (415, "unsupported_content_encoding")
    assert identity.status == 200


async def test_a_task_that_no_replica_answers_is_refused_with_what_it_does_answer() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post(path="/v1/embeddings"))

    assert answer.status == 400
    assert "which does not answer /v1/embeddings when started so" in answer.error()["message"]
    assert "it answers: chat/completions, completions" in answer.error()["message"]


async def test_a_model_without_replicas_says_why_and_when_to_ask_again() -> None:
    async with Gateway() as gateway:
        gateway.serve(ModelRoute(name="gemma", why_not="gemma.0 is fetching, 3 of 9 GiB", retry_after_s=2.5))
        answer = await gateway.ask(post(b'{"model": "gemma", "stream": true}'))

    assert answer.status == 503
    assert answer.get(b"retry-after") == b"3"
    assert answer.get(b"retry-after-ms") == b"2500"
    assert "gemma.0 is fetching, 3 of 9 GiB" in answer.error()["message"]
    assert answer.get(b"content-type") == b"application/json"


async def test_a_fallback_answers_for_a_model_without_replicas_and_says_so() -> None:
    async with FakeEngine() as engine, Gateway() as gateway:
        gateway.serve(
            ModelRoute(name="gemma", fallback=("absent", "small")),
            ModelRoute(name="small", endpoints=(endpoint(engine, model="small", replica="small.0"),)),
        )
        answer = await gateway.ask(post())

    assert answer.status == 200
    assert answer.get(b"x-llmgw-model") == b"small"


async def test_an_alias_is_answered_by_its_model() -> None:
    async with FakeEngine() as engine, Gateway() as gateway:
        gateway.serve(ModelRoute(name="gemma", aliases=("small",), endpoints=(endpoint(engine),)))
        answer = await gateway.ask(post(b'{"model": "small"}'))

    assert answer.get(b"x-llmgw-model") == b"gemma"


class BrokenNames(dict[str, ModelRoute]):
    """Names of models whose look-up breaks."""

    def get(self, *args: object) -> ModelRoute:
        raise RuntimeError("broken")


async def test_a_request_that_breaks_us_is_answered_with_its_id_and_the_next_one_is_served() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        table = gateway.router._endpoints.table
        gateway.router.replace_table(RouteTable(BrokenNames(table.by_name)))
        broken = await client.ask(post(headers=("X-Request-Id: mine",)))
        gateway.router.replace_table(table)
        served = await client.ask(post())

    assert (broken.status, broken.error()["code"]) == (500, "internal")
    assert "mine" in broken.error()["message"]
    assert "broken" not in broken.error()["message"]
    assert served.status == 200


# Who answers.


async def test_idle_replicas_share_requests_that_come_one_by_one() -> None:
    async with FakeEngine() as one, FakeEngine() as two, Gateway(one, two) as gateway:
        for _ in range(10):
            await gateway.ask(post())

    assert (len(one.requests), len(two.requests)) == (5, 5)


async def test_a_busy_replica_is_passed_over() -> None:
    async with (
        FakeEngine([Act.HOLD, plain(b"{}")]) as busy,
        FakeEngine() as idle,
        Gateway(busy, idle) as gateway,
        gateway.client() as first,
        gateway.client() as second,
    ):
        # One of the two goes to the replica that holds it; everything after that must go to the other.
        await first.send(post())
        await second.send(post())
        await until(lambda: busy.held == 1)
        for _ in range(6):
            await gateway.ask(post())

        assert len(busy.requests) == 1
        busy.released.set()


async def test_a_new_table_keeps_the_counters_of_the_same_generation_only() -> None:
    script: Script = [Act.HOLD, plain(b"{}")]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(post())
        await until(lambda: engine.held == 1)
        gateway.serve(ModelRoute(name="gemma", endpoints=(endpoint(engine, capacity=9),)))
        same = gateway.outstanding()
        gateway.serve(ModelRoute(name="gemma", endpoints=(endpoint(engine, generation=Generation(2, 0)),)))
        new = gateway.outstanding()
        engine.released.set()
        answer = await client.read_answer()

        assert (same, new) == ([1], [0])
        assert answer.status == 200
        assert gateway.outstanding() == [0]


# What is tried again.


async def test_a_kept_connection_that_dies_without_a_byte_gets_one_more_try() -> None:
    for act in (Act.RESET, Act.CLOSE):
        scripts = ([plain(b"1")], [act], [plain(b"2")])
        async with FakeEngine(*scripts) as engine, Gateway(engine) as gateway, gateway.client() as client:
            first = await client.ask(post())
            second = await client.ask(post())
            await until(lambda g=gateway: g.outstanding() == [0])

        assert (first.body, second.body) == (b"1", b"2")
        assert engine.accepted == 2


async def test_a_replica_that_cannot_be_connected_to_gives_way() -> None:
    async with FakeEngine() as engine, Gateway(free_port(), free_port(), engine) as gateway:
        answers = [await gateway.ask(post()) for _ in range(4)]

        assert [answer.get(b"x-llmgw-replica") for answer in answers] == [b"gemma.2"] * 4
        assert gateway.outstanding() == [0, 0, 0]


@pytest.mark.parametrize(
    "script", [[Act.RESET], [Act.CLOSE], [SSE_HEAD, Act.CLOSE], [b"HTTP/1.1 200 OK\r\n", Act.RESET]]
)
async def test_a_replica_that_dies_before_it_shows_anything_gives_way_to_another(
    script: list[bytes | Act],
) -> None:
    async with FakeEngine(script) as dying, FakeEngine() as engine, Gateway(dying, engine) as gateway:
        answers = [await gateway.ask(post()) for _ in range(2)]

        assert [answer.status for answer in answers] == [200, 200]
        assert len(dying.requests) == 1
        assert gateway.outstanding() == [0, 0]


async def test_a_request_that_kills_engines_does_not_go_through_all_of_them() -> None:
    engines = [FakeEngine([Act.RESET]) for _ in range(4)]
    async with engines[0], engines[1], engines[2], engines[3], Gateway(*engines) as gateway:
        answer = await gateway.ask(post())

    assert answer.status == 502
    assert sum(len(engine.requests) for engine in engines) == 2


@pytest.mark.parametrize(
    "script",
    [
        [Act.RESET],
        [b"SSH-2.0-OpenSSH\r\n", Act.HOLD],
        [b"HTTP/1.1 200 OK\r\n\r\n", Act.CLOSE],
        [b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", Act.HOLD],
        [b"HTTP/1.1 200 OK\r\nx: " + b"y" * 70_000, Act.HOLD],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Act.CLOSE],
    ],
)
async def test_an_engine_that_answers_nothing_usable_is_named(script: list[bytes | Act]) -> None:
    async with FakeEngine(script) as engine, Gateway(engine) as gateway:
        answer = await gateway.ask(post())

        assert answer.status == 502
        assert answer.error()["code"] == "upstream_failed"
        assert "replica 'gemma.0'" in answer.error()["message"]
        assert answer.get(b"x-llmgw-replica") == b"gemma.0"
        assert gateway.outstanding() == [0]


@pytest.mark.parametrize("act", [Act.RESET, Act.CLOSE])
async def test_a_stream_that_breaks_off_ends_with_an_error_event_and_no_done(act: Act) -> None:
    half = b'data: {"half'
    async with FakeEngine([SSE_HEAD, chunk(EVENT), chunk(half), act]) as engine, FakeEngine() as other:
        engine.scripts = [[SSE_HEAD, chunk(EVENT), chunk(half), Act.HOLD, act]]
        async with Gateway(engine) as gateway, gateway.client() as client:
            await client.send(post())
            await client.read_head()
            shown = await client.read_chunk()
            while half not in shown:
                shown += await client.read_chunk()
            engine.released.set()
            event = await client.read_chunk()
            end = await client.read_chunk()
            closed = await client.is_closed()
            await until(lambda: gateway.outstanding() == [0])

    assert shown == EVENT + half
    assert event.startswith(b'\n\ndata: {"error":')
    assert event.endswith(b"\n\n")
    error = json.loads(event.strip().removeprefix(b"data: "))["error"]
    assert error["code"] == "upstream_failed"
    assert "gemma.0" in error["message"]
    assert b"[DONE]" not in event
    assert end == b""
    assert closed
    assert other.requests == []


OPEN_ENDED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n"


async def test_a_stream_that_ends_with_its_connection_is_whole_only_when_it_said_done() -> None:
    whole: Script = [OPEN_ENDED, EVENT + DONE, Act.CLOSE]
    short: Script = [OPEN_ENDED, EVENT, Act.CLOSE]
    async with FakeEngine(whole, short) as engine, Gateway(engine) as gateway:
        first = await gateway.ask(post())
        second = await gateway.ask(post())

    assert first.body == EVENT + DONE
    assert second.body.startswith(EVENT + b'data: {"error":')


async def test_an_engine_that_dies_behind_done_has_answered() -> None:
    script: Script = [SSE_HEAD, chunk(EVENT + DONE), Act.CLOSE]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway, gateway.client() as client:
        answers = [await client.ask(post()) for _ in range(2)]

    assert [answer.body for answer in answers] == [EVENT + DONE] * 2


async def test_an_answer_that_breaks_off_in_its_middle_is_cut() -> None:
    script: Script = [b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n", b'{"half', Act.HOLD, Act.CLOSE]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(post())
        status, _ = await client.read_head()
        half = await client.reader.readexactly(6)
        engine.released.set()
        closed = await client.is_closed()

        assert (status, half, closed) == (200, b'{"half', True)
        await until(lambda: gateway.outstanding() == [0])


async def test_the_only_replica_is_asked_even_when_it_failed_just_now() -> None:
    async with FakeEngine([Act.RESET], [plain(b"{}")]) as engine, Gateway(engine) as gateway:
        statuses = [(await gateway.ask(post())).status for _ in range(3)]

    assert statuses == [502, 200, 200]


# Clients that leave.


async def test_a_client_that_leaves_before_the_answer_begins_takes_the_engines_work_with_it() -> None:
    async with FakeEngine([Act.HOLD]) as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(post())
        await until(lambda: engine.held == 1)
        client.leave()
        await until(lambda: engine.open == 0, deadline_s=1)

        assert gateway.outstanding() == [0]
        assert gateway.router.in_flight() == []


async def test_a_client_that_leaves_after_the_head_and_before_a_token_cancels() -> None:
    async with (
        FakeEngine([SSE_HEAD, Act.HOLD]) as engine,
        Gateway(engine) as gateway,
        gateway.client() as client,
    ):
        await client.send(post())
        await until(lambda: engine.held == 1)
        client.reset()
        await until(lambda: engine.open == 0, deadline_s=1)

        assert gateway.outstanding() == [0]


async def test_a_client_that_leaves_in_mid_stream_cancels() -> None:
    script: Script = [SSE_HEAD, chunk(EVENT), Act.HOLD]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(post())
        await client.read_head()
        client.leave()
        await until(lambda: engine.open == 0, deadline_s=1)

        assert gateway.outstanding() == [0]


async def test_a_client_that_leaves_while_the_engine_is_connected_to_leaves_nothing() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway:
        for _ in range(30):
            client = gateway.client()
            async with client:
                await client.send(post())
                client.reset()
        await until(lambda: gateway.outstanding() == [0])
        await until(lambda: gateway.router.in_flight() == [])


async def test_a_client_that_leaves_while_it_sends_its_body_leaves_nothing() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        await client.send(post(b'{"model"', framing="Content-Length: 500"))
        client.leave()
        await until(lambda: not gateway.server.server_state.connections)

        assert engine.requests == []
        assert gateway.outstanding() == [0]


async def test_after_many_clients_that_left_at_odd_moments_every_gauge_is_zero() -> None:
    scripts: list[Script] = [
        [SSE_HEAD, chunk(EVENT), chunk(EVENT), chunk(DONE), LAST_CHUNK],
        [SSE_HEAD, chunk(EVENT), Act.HOLD],
        [plain(b"{}")],
        [Act.RESET],
        [SSE_HEAD, chunk(EVENT), Act.RESET],
        [Act.HOLD],
        [b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n123", Act.CLOSE],
    ]
    chance = random.Random(7)
    async with FakeEngine() as one, FakeEngine() as two, Gateway(one, two, free_port()) as gateway:
        one.answers(*[chance.choice(scripts) for _ in range(2000)])
        two.answers(*[chance.choice(scripts) for _ in range(2000)])

        async def visit() -> None:
            async with gateway.client() as client:
                request = post(b'{"model": "gemma", "stream": true}')
                cut = chance.choice([len(request), chance.randrange(len(request))])
                await client.send(request[:cut])
                if chance.random() < 0.6 and cut == len(request):
                    read = asyncio.ensure_future(client.reader.read(chance.randrange(1, 400)))
                    await asyncio.wait({read}, timeout=chance.random() * 0.02)
                    read.cancel()
                    await asyncio.gather(read, return_exceptions=True)
                chance.choice([client.leave, client.reset])()

        for _ in range(10):
            await asyncio.gather(*[visit() for _ in range(50)])
        await until(lambda: not gateway.server.server_state.connections)
        await until(lambda: one.held + two.held == 0)

        assert gateway.outstanding() == [0, 0, 0]
        assert gateway.router.in_flight() == []


# Slow clients.


async def test_a_slow_client_holds_its_engine_back_and_costs_little() -> None:
    piece = chunk(b"x" * 60_000)
    script: Script = [SSE_HEAD, *[piece] * 400, LAST_CHUNK]
    async with FakeEngine(script) as engine, Gateway(engine) as gateway, gateway.client() as slow:
        slow.pause()
        await slow.send(post())
        connection = await one_connection(gateway)
        await until(lambda: connection.is_slow())
        held = connection.transport.get_write_buffer_size()
        slow.resume()
        answer = await slow.read_answer()

        assert held < 256 * 1024
        assert len(answer.body) == 400 * 60_000
        assert gateway.outstanding() == [0]


async def one_connection(gateway: Gateway) -> Any:
    await until(lambda: gateway.server.server_state.connections)
    return next(iter(gateway.server.server_state.connections))


async def test_the_lists_of_models_and_the_data_path_share_a_connection() -> None:
    async with FakeEngine() as engine, Gateway(engine) as gateway, gateway.client() as client:
        models = await client.ask(get("/v1/models"))
        served = await client.ask(post())
        missing = await client.ask(get("/v1/nothing"))

    assert (models.status, served.status, missing.status) == (200, 200, 404)


async def test_embeddings_are_served_where_a_replica_answers_them() -> None:
    async with FakeEngine() as engine, Gateway() as gateway:
        gateway.serve(
            ModelRoute(
                name="gemma",
                endpoints=(endpoint(engine, 0, tasks=(CHAT,)), endpoint(engine, 1, tasks=(EMBEDDINGS,))),
            )
        )
        answers = [await gateway.ask(post(path="/v1/embeddings")) for _ in range(3)]

    assert [answer.get(b"x-llmgw-replica") for answer in answers] == [b"gemma.1"] * 3


@pytest.mark.parametrize("address", [{"host": "a" * 300 + ".x"}, {"port": 70000}, {"port": -1}])
async def test_an_endpoint_whose_address_cannot_be_used_gives_way_to_another(address: dict[str, Any]) -> None:
    async with FakeEngine() as engine, Gateway() as gateway:
        bad = endpoint(engine, 0, **address)
        gateway.serve(ModelRoute(name="gemma", endpoints=(bad,)))
        alone = await gateway.ask(post())
        gateway.serve(ModelRoute(name="gemma", endpoints=(bad, endpoint(engine, 1))))
        statuses = {(await gateway.ask(post())).status for _ in range(3)}

    assert (alone.status, alone.error()["code"]) == (502, "upstream_failed")
    assert statuses == {200}
