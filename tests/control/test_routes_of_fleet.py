from datetime import timedelta
from typing import Any

import pytest
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.engine_adapter import FakeAdapter
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction

from llmgw.control.table import Hold, make_table
from llmgw.core.fleet.catalog import Model
from llmgw.core.fleet.shards import Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, aged, disconnected, told_to_stop
from llmgw.core.ids import Generation
from llmgw.core.routing.table import CHAT, Endpoint, ModelRoute

LATER = AT + timedelta(seconds=8)


def _route(fleet: Fleet, model: Model | None = None, **given: Any) -> ModelRoute:
    model = model or a_model()
    table = make_table(
        a_catalog(model),
        {model.name: AT},
        fleet,
        {"llama.cpp": FakeAdapter()},
        **{"hold": None, "now": 8.0, "at": LATER} | given,
    )
    return table.by_name[model.name]


def _with(*shards: ShardState) -> Fleet:
    return a_fleet(an_introduction(shards=shards, address="10.0.0.7"))


def test_a_ready_replica_is_an_endpoint_with_all_that_the_router_needs() -> None:
    model = a_model(aliases=("small",), fallback=("other",), profiles=(a_profile(parallel=2),))

    route = _route(_with(a_shard(fingerprint=model.profiles[0].fingerprint(), host="10.0.0.9")), model)

    assert route == ModelRoute(
        name="gemma",
        aliases=("small",),
        fallback=("other",),
        created_s=int(AT.timestamp()),
        endpoints=(
            Endpoint(
                replica="gemma.0",
                model="gemma",
                generation=Generation(1, 1),
                node="n1",
                host="10.0.0.9",
                port=9001,
                engine="llama.cpp",
                profile="cpu",
                capacity=2,
                tasks=(CHAT,),
            ),
        ),
    )


def test_an_engine_that_does_not_say_its_host_is_reached_at_the_address_of_its_node() -> None:
    assert [e.host for e in _route(_with(a_shard())).endpoints] == ["10.0.0.7"]


def test_a_stale_replica_is_an_endpoint_of_the_profile_of_its_name() -> None:
    stale = a_shard(fingerprint="0123456789abcdef")

    assert [e.profile for e in _route(_with(stale)).endpoints] == ["cpu"]


def test_a_stale_replica_is_asked_for_what_it_says_it_can_do_and_not_for_what_its_edited_profile_can() -> (
    None
):
    edited = a_model(profiles=(a_profile(parallel=8),))
    stale = a_shard(fingerprint="0123456789abcdef", tasks=("embeddings",), capacity=2)
    renamed = a_shard(profile="gone", fingerprint="0123456789abcdef", tasks=("embeddings",), capacity=2)
    silent = a_shard(fingerprint="0123456789abcdef")

    endpoints = [_route(_with(shard), edited).endpoints for shard in (stale, renamed, silent)]

    assert [[(e.tasks, e.capacity, e.profile) for e in found] for found in endpoints] == [
        [(("embeddings",), 2, "cpu")],
        [(("embeddings",), 2, "gone")],
        [((CHAT,), 8, "cpu")],
    ]


@pytest.mark.parametrize(
    "shard",
    [
        a_shard(port=None),
        a_shard(profile="gone", fingerprint=None),
        a_shard(phase=Phase.STARTING),
        a_shard(profile="strange"),
    ],
)
def test_what_cannot_be_asked_is_no_endpoint(shard: ShardState) -> None:
    model = a_model(profiles=(a_profile(), a_profile(name="strange", engine="vllm")))

    route = _route(_with(shard), model)

    assert route.endpoints == ()
    assert route.why_not is not None


def test_every_alias_and_every_model_is_in_the_table_and_an_unknown_time_of_entry_is_zero() -> None:
    catalog = a_catalog(a_model("a", aliases=("x",)), a_model("b"))

    table = make_table(catalog, {}, Fleet(), {}, hold=None, now=0.0, at=AT)

    assert set(table.by_name) == {"a", "b", "x"}
    assert table.by_name["a"].created_s == 0


def test_endpoints_of_silent_and_lost_nodes_stay_until_a_later_generation_is_ready_elsewhere() -> None:
    old, new = a_shard(generation=(1, 1)), a_shard(generation=(1, 2))
    alone = a_fleet(an_introduction("n1", shards=(old,)))
    unreachable = disconnected(alone, "n1", connection=1, now=0.0, at=AT)
    lost = aged(unreachable, now=99.0, at=AT, unreachable_after_s=15, lost_after_s=60)
    replaced = a_fleet(an_introduction("n1", shards=(old,)), an_introduction("n2", shards=(new,)))

    assert [e.node for e in _route(unreachable).endpoints] == ["n1"]
    assert [e.node for e in _route(lost).endpoints] == ["n1"]
    assert [e.node for e in _route(replaced).endpoints] == ["n2"]


def test_a_replica_that_was_told_to_stop_is_no_endpoint_any_more() -> None:
    fleet = told_to_stop(_with(a_shard()), "n1", "gemma.0.0", Generation(1, 1))

    assert _route(fleet).endpoints == ()


def test_a_model_that_is_not_served_says_why_and_when_to_ask_again() -> None:
    hold = Hold(text="the server has just started", for_s=12.0)
    failed = _with(a_shard(phase=Phase.FAILED, reason="no memory"))

    answers = {
        "held": _route(_with(), hold=hold),
        "off": _route(_with(), a_model(replicas=0)),
        "loading": _route(_with(a_shard(phase=Phase.STARTING))),
        "failed": _route(failed, now=0.5),
        "due": _route(failed, now=500.0),
        "nowhere": _route(Fleet()),
    }

    assert {name: route.retry_after_s for name, route in answers.items()} == {
        "held": 17.0,
        "off": 60.0,
        "loading": 5.0,
        "failed": 5.5,
        "due": 5.0,
        "nowhere": 15.0,
    }
    assert answers["held"].why_not == "the server has just started"
    assert "no memory" in (answers["failed"].why_not or "")
    assert all(route.why_not for route in answers.values())


def test_a_long_backoff_does_not_ask_clients_to_wait_longer_than_five_minutes() -> None:
    fleet = _with(a_shard(phase=Phase.FAILED))

    assert _route(fleet, now=-1000.0).retry_after_s == 300.0
