"""Counters and connections of endpoints while route tables come and go."""

from fakes.clock import FakeClock
from fakes.gateway import endpoint

from llmgw.core.ids import Generation
from llmgw.core.routing.health import HEALTHY, Outcome
from llmgw.core.routing.table import CHAT, EMBEDDINGS, Endpoint, ModelRoute, build_table
from llmgw.router.endpoints import Endpoints
from llmgw.router.upstream import Connector


def serving(*listed: Endpoint) -> ModelRoute:
    return ModelRoute(name="gemma", endpoints=listed)


def book() -> Endpoints:
    return Endpoints(Connector(FakeClock()))


def test_the_same_generation_keeps_its_counters_and_takes_its_new_size() -> None:
    endpoints = book()
    route = serving(endpoint(1, capacity=1))
    endpoints.replace(build_table((route,)))
    (state,) = endpoints.candidates(route, CHAT)
    state.take()

    route = serving(endpoint(1, capacity=8))
    endpoints.replace(build_table((route,)))

    assert endpoints.candidates(route, CHAT) == (state,)
    assert (state.outstanding, state.capacity, state.is_retired) == (1, 8, False)


def test_a_new_generation_has_new_counters_and_the_old_one_is_retired() -> None:
    endpoints = book()
    route = serving(endpoint(1))
    endpoints.replace(build_table((route,)))
    (old,) = endpoints.candidates(route, CHAT)
    old.take()

    route = serving(endpoint(1, generation=Generation(2, 0)))
    endpoints.replace(build_table((route,)))
    (new,) = endpoints.candidates(route, CHAT)
    old.done(Outcome.FAILED, 5.0)

    assert old.is_retired
    assert (new.outstanding, new.health) == (0, HEALTHY)


def test_a_replica_that_moved_gets_connections_to_where_it_is_now() -> None:
    endpoints = book()
    route = serving(endpoint(1))
    endpoints.replace(build_table((route,)))
    (state,) = endpoints.candidates(route, CHAT)
    before = state.pool

    endpoints.replace(build_table((serving(endpoint(2)),)))

    assert (before.port, state.pool.port) == (1, 2)
    assert state.host_header == b"127.0.0.1:2"


def test_an_address_of_the_newer_kind_is_written_in_brackets() -> None:
    endpoints = book()
    route = serving(endpoint(1, host="::1"))
    endpoints.replace(build_table((route,)))

    (state,) = endpoints.candidates(route, CHAT)

    assert state.host_header == b"[::1]:1"


def test_only_endpoints_that_answer_the_task_are_candidates() -> None:
    endpoints = book()
    route = serving(endpoint(1, 0, tasks=(CHAT,)), endpoint(2, 1, tasks=(EMBEDDINGS,)))
    endpoints.replace(build_table((route,)))

    chosen = endpoints.candidates(route, EMBEDDINGS)

    assert [state.endpoint.replica for state in chosen] == ["gemma.1"]
    assert endpoints.candidates(route, "rerank") == ()


def test_a_failure_counts_until_a_request_is_answered() -> None:
    endpoints = book()
    route = serving(endpoint(1))
    endpoints.replace(build_table((route,)))
    (state,) = endpoints.candidates(route, CHAT)

    state.take()
    state.done(Outcome.FAILED, 1.0)
    failed = state.health
    state.take()
    probing = state.health.probing
    state.done(Outcome.ANSWERED, 3.0)

    assert failed.failures == 1
    assert probing
    assert (state.health, state.outstanding) == (HEALTHY, 0)
