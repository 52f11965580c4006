from datetime import UTC, datetime, timedelta, timezone

import pytest

from llmgw.core.accounts.access import Scope
from llmgw.core.errors import Conflict, NotFound, StoreFailed
from llmgw.core.fleet.catalog import Catalog, Model, Profile
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.snapshot import NodeState
from llmgw.store.catalog import CatalogStore
from llmgw.store.database import Database
from llmgw.store.history import HistoryStore
from llmgw.store.keys import KeyStore
from llmgw.store.nodes import NodeStore

AT = datetime(2030, 1, 1, 12, 30, 15, 250_000, tzinfo=UTC)
LATER = AT + timedelta(days=1)


def model(name: str, replicas: int = 1) -> Model:
    profile = Profile(
        name="cpu",
        engine="llama.cpp",
        weights="file:///srv/ö.gguf",
        context=4096,
        min_memory_gb=1.5,
        node_selector={"rack": "b2"},
        args=("--mlock",),
        env={"A": "b"},
    )
    return Model(name=name, aliases=(f"{name}-alias",), replicas=replicas, fallback=(), profiles=(profile,))


async def test_an_empty_store_has_an_empty_catalog(database: Database) -> None:
    assert await CatalogStore(database).load() == Catalog()


async def test_a_catalog_comes_back_as_it_was_given_in_the_order_of_names(database: Database) -> None:
    store = CatalogStore(database)

    await store.replace(Catalog(models=(model("b"), model("a", replicas=3))), AT)

    assert await store.load() == Catalog(models=(model("a", replicas=3), model("b")))


async def test_a_model_that_stays_keeps_the_time_it_entered_the_catalog(database: Database) -> None:
    store = CatalogStore(database)
    await store.replace(Catalog(models=(model("stays"), model("goes"), model("changes"))), AT)

    await store.replace(Catalog(models=(model("stays"), model("changes", replicas=2), model("comes"))), LATER)

    assert await store.created() == {"stays": AT, "changes": AT, "comes": LATER}
    assert (await store.load()).model("changes") == model("changes", replicas=2)


async def test_a_stored_model_of_another_version_is_refused_by_name(database: Database) -> None:
    store = CatalogStore(database)
    await store.replace(Catalog(models=(model("a"),)), AT)
    async with database.write() as connection:
        await connection.exec_driver_sql("""UPDATE models SET model = '{"name": "a", "shape": "new"}'""")

    with pytest.raises(StoreFailed, match="the stored model 'a' cannot be read"):
        await store.load()


async def test_a_key_comes_back_as_it_was_kept(database: Database) -> None:
    store = KeyStore(database)

    first = await store.add("me", "sk-llmgw-abcd", b"1" * 32, Scope.INFERENCE, None, AT, None)
    second = await store.add("ops", "sk-llmgw-efgh", b"2" * 32, Scope.ADMIN, ("a", "b"), AT, LATER)
    third = await store.add("none", "sk-llmgw-ijkl", b"3" * 32, Scope.INFERENCE, (), AT, None)

    assert await store.all() == (first, second, third)
    assert (second.scope, second.models, second.expires_at) == (Scope.ADMIN, ("a", "b"), LATER)
    assert (first.id, first.models, third.models) == (1, None, ())


async def test_the_same_digest_is_not_kept_twice(database: Database) -> None:
    store = KeyStore(database)
    await store.add("me", "sk-llmgw-abcd", b"1" * 32, Scope.INFERENCE, None, AT, None)

    with pytest.raises(Conflict, match="sk-llmgw-abcd exists already"):
        await store.add("you", "sk-llmgw-abcd", b"1" * 32, Scope.INFERENCE, None, AT, None)


async def test_a_key_is_revoked_once_and_keeps_the_first_time(database: Database) -> None:
    store = KeyStore(database)
    key = await store.add("me", "sk-llmgw-abcd", b"1" * 32, Scope.INFERENCE, None, AT, None)

    first = await store.revoke(key.id, LATER)
    second = await store.revoke(key.id, LATER + timedelta(days=1))

    assert first.revoked_at == second.revoked_at == LATER
    assert await store.all() == (first,)


async def test_revoking_a_key_that_does_not_exist_says_so(database: Database) -> None:
    with pytest.raises(NotFound, match="no key has the id 7"):
        await KeyStore(database).revoke(7, AT)


async def test_a_time_of_another_zone_is_kept_as_the_same_moment(database: Database) -> None:
    store = KeyStore(database)
    there = AT.astimezone(timezone(timedelta(hours=2)))

    key = await store.add("me", "sk-llmgw-abcd", b"1" * 32, Scope.INFERENCE, None, there, None)

    assert (await store.all())[0].created_at == AT == key.created_at


async def test_nodes_are_remembered_once(database: Database) -> None:
    store = NodeStore(database)

    await store.remember(["node-a"], AT)
    await store.remember(["node-a"], LATER)
    await store.remember(["node-b"], AT)

    assert await store.known() == {"node-a", "node-b"}


async def test_what_an_operator_wants_of_a_node_is_kept_until_that_is_ready_again(database: Database) -> None:
    store = NodeStore(database)
    await store.remember(["node-a"], AT)

    await store.intend("node-a", NodeState.DRAINING, LATER)
    await store.intend("node-b", NodeState.CORDONED, LATER)
    kept = await store.intents()
    await store.intend("node-a", NodeState.READY, LATER)

    assert kept == {"node-a": NodeState.DRAINING, "node-b": NodeState.CORDONED}
    assert await store.intents() == {"node-b": NodeState.CORDONED}
    assert await store.known() == {"node-a", "node-b"}


async def test_a_node_that_is_forgotten_is_forgotten_with_what_was_wanted_of_it(database: Database) -> None:
    store = NodeStore(database)
    await store.intend("node-a", NodeState.DRAINING, AT)

    await store.forget("node-a")
    await store.forget("node-a")

    assert await store.known() == frozenset()
    assert await store.intents() == {}


def _events(node: str, count: int, at: datetime = AT) -> list[NodeEvent]:
    return [NodeEvent(at=at, node=node, kind="state", text=f"{node} {i}") for i in range(count)]


async def test_the_latest_events_of_every_node_come_back_oldest_first(database: Database) -> None:
    store = HistoryStore(database)

    await store.add(_events("a", 5) + _events("b", 1))
    await store.add(())
    latest = await store.latest(2)

    assert [event.text for event in latest] == ["a 3", "a 4", "b 0"]
    assert latest[0] == NodeEvent(at=AT, node="a", kind="state", text="a 3")


async def test_events_end_with_their_time_and_beyond_a_number(database: Database) -> None:
    store = HistoryStore(database)
    await store.add(_events("old", 3) + _events("new", 5, LATER))

    await store.prune(AT + timedelta(seconds=1), most=2)

    assert [event.text for event in await store.latest(10)] == ["new 3", "new 4"]


async def test_an_empty_history_can_be_pruned(database: Database) -> None:
    store = HistoryStore(database)

    await store.prune(AT, most=2)

    assert await store.latest(10) == ()
