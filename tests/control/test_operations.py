import contextlib
from datetime import timedelta
from typing import Any

import pytest
from fakes.catalogs import a_catalog, a_model, catalog_data
from fakes.clock import FakeClock
from fakes.command_log import CommandLog
from fakes.engine_adapter import FakeAdapter
from fakes.load import FakeLoad
from fakes.log_streams import FakeStreams
from fakes.nodes import a_shard, an_introduction
from fakes.removals import FakeRemovals
from fakes.stores import MemoryCatalogStore, MemoryHistoryStore, MemoryKeyStore, MemoryNodeStore
from fakes.user_store import a_people
from hypothesis import given
from hypothesis import strategies as st

from llmgw.control.desired import Desired
from llmgw.control.fleet import ObservedFleet
from llmgw.control.history import NodeHistory
from llmgw.control.logs import Logs
from llmgw.control.operations import Operations
from llmgw.control.reconciler import Reconciler, Timings
from llmgw.control.roster import Roster
from llmgw.control.upkeep import Upkeep
from llmgw.control.weights import Weights
from llmgw.core.accounts.access import KEY_PREFIX, Denied, KeyRecord, Keyring, Scope, digest_of, find_key
from llmgw.core.errors import BadInput, NotFound, StoreFailed
from llmgw.core.fleet.catalog import Catalog, Change, check_names
from llmgw.core.fleet.shards import Phase

ENGINES = {"llama.cpp": FakeAdapter()}


class _Admin:
    """Operations over stores in memory, and all they touch."""

    def __init__(self, catalog: Catalog | None = None, *, known: tuple[str, ...] = ()) -> None:
        self.clock = FakeClock()
        self.catalogs, self.keys = MemoryCatalogStore(catalog), MemoryKeyStore()
        self.desired = Desired(self.catalogs.catalog, {})
        self.fleet = ObservedFleet(self.clock)
        self.woken = 0
        self.keyrings: list[Keyring] = []
        reconciler = Reconciler(
            self.desired,
            self.fleet,
            CommandLog(),
            clock=self.clock,
            epoch=5,
            engines=ENGINES,
            known=known,
            timings=Timings(),
            in_flight=FakeLoad(),
            publish=lambda table: None,
        )
        self.desired.listen(self._wake)
        roster = Roster(MemoryNodeStore(*known), self.fleet, clock=self.clock, known=known)
        history = NodeHistory(MemoryHistoryStore(), self.clock)
        self.operations = Operations(
            self.desired,
            self.fleet,
            reconciler,
            Upkeep(self.fleet, reconciler, roster, history, clock=self.clock),
            Logs(FakeStreams()),
            a_people(self.clock),
            catalog_store=self.catalogs,
            key_store=self.keys,
            engines=ENGINES,
            clock=self.clock,
            version="1.0",
            epoch=5,
            weights=Weights(FakeRemovals(), self.desired, self.fleet),
            set_keys=self.keyrings.append,
        )

    def _wake(self) -> None:
        self.woken += 1

    async def apply(self, *models: dict[str, Any], dry_run: bool = False, prune: bool = False) -> Change:
        return await self.operations.apply(catalog_data(*models), dry_run=dry_run, prune=prune)

    async def refused(self, *models: dict[str, Any], prune: bool = False) -> dict[str, str]:
        with pytest.raises(BadInput) as caught:
            await self.apply(*models, prune=prune)
        assert "nothing was changed" in str(caught.value)
        return {problem.where(): problem.message for problem in caught.value.problems}

    async def create(self, name: str = "ci", **given: Any) -> tuple[str, KeyRecord]:
        made = await self.operations.create_key(
            name, **{"scope": Scope.INFERENCE, "models": None, "expires_at": None} | given
        )
        return made.key, made.record


async def test_an_apply_is_stored_kept_in_memory_and_wakes_the_reconciler() -> None:
    admin = _Admin(a_catalog(a_model("old")))

    change = await admin.apply({"name": "new"})

    assert change == Change(created=("new",), kept=("old",))
    assert admin.catalogs.catalog == admin.operations.catalog() == a_catalog(a_model("new"), a_model("old"))
    assert admin.desired.created["new"] == admin.clock.at()
    assert admin.woken == 1


async def test_a_dry_run_says_what_would_change_and_changes_nothing() -> None:
    admin = _Admin(a_catalog(a_model("old")))

    change = await admin.apply({"name": "new"}, dry_run=True, prune=True)

    assert change == Change(created=("new",), removed=("old",))
    assert admin.catalogs.writes == admin.woken == 0
    assert admin.operations.catalog() == a_catalog(a_model("old"))


async def test_a_prune_removes_what_the_file_does_not_name() -> None:
    admin = _Admin(a_catalog(a_model("old"), a_model("gemma")))

    change = await admin.apply({"name": "gemma"}, prune=True)

    assert change == Change(unchanged=("gemma",), removed=("old",))
    assert admin.operations.catalog() == a_catalog(a_model("gemma"))


async def test_an_apply_that_changes_nothing_writes_nothing() -> None:
    admin = _Admin(a_catalog(a_model("gemma")))

    change = await admin.apply({"name": "gemma"})

    assert change == Change(unchanged=("gemma",))
    assert admin.catalogs.writes == admin.woken == 0


async def test_a_catalog_with_problems_is_refused_with_all_of_them_and_changes_nothing() -> None:
    admin = _Admin(a_catalog(a_model("old")))

    problems = await admin.refused(
        {"replicas": -1}, {"name": "b", "profiles": [{"engine": "vllm"}]}, {"name": "old", "aliases": ["b"]}
    )

    assert set(problems) == {"models[0].replicas", "models[1].profiles[0].engine", "models[2].aliases[0]"}
    assert admin.operations.catalog() == admin.catalogs.catalog == a_catalog(a_model("old"))
    assert admin.woken == 0


async def test_an_argument_that_the_engine_must_not_get_is_a_problem_of_its_profile() -> None:
    problems = await _Admin().refused({"profiles": [{}, {"name": "b", "args": ["--forbidden"]}]})

    assert problems == {"models[0].profiles[1]": "argument '--forbidden' is refused: leave it out"}


async def test_a_file_is_checked_together_with_what_stays_stored() -> None:
    admin = _Admin(a_catalog(a_model("old", aliases=("small",))))

    clash = await admin.refused({"name": "small"})
    orphan = await admin.refused({"fallback": ["small"]}, prune=True)
    change = await admin.apply({"fallback": ["small"]})

    assert "is used twice, first by the stored model 'old'" in clash["models[0].name"]
    assert "no model is called 'small'" in orphan["models[0].fallback[0]"]
    assert change.created == ("gemma",)


async def test_a_catalog_that_cannot_be_stored_never_happened() -> None:
    admin = _Admin()
    admin.catalogs.broken = True

    with pytest.raises(StoreFailed):
        await admin.apply({})

    assert admin.operations.catalog() == Catalog()
    assert admin.woken == 0


NAMES = st.sampled_from("abcd")
FILES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "aliases": st.lists(NAMES, max_size=2), "fallback": st.lists(NAMES, max_size=2)}
    ),
    max_size=3,
)


@given(st.lists(st.tuples(FILES, st.booleans()), max_size=6))
async def test_whatever_is_applied_in_whatever_order_the_stored_catalog_stays_sound(
    applies: list[tuple[list[dict[str, Any]], bool]],
) -> None:
    admin = _Admin()

    for models, prune in applies:
        with contextlib.suppress(BadInput):
            await admin.apply(*models, prune=prune)
        assert check_names(admin.catalogs.catalog) == []
        assert admin.catalogs.catalog == admin.operations.catalog()


def test_a_model_is_explained_by_its_name_or_an_alias() -> None:
    admin = _Admin(a_catalog(a_model("gemma", aliases=("small",))))

    by_name, by_alias = admin.operations.explain("gemma"), admin.operations.explain("small")

    assert by_name == by_alias
    assert by_name.why_not == "model 'gemma' fits nowhere: no node is registered; start 'llmgw agent' on one"


def test_an_unknown_model_is_answered_with_the_nearest_name() -> None:
    with pytest.raises(NotFound, match="no model is called 'gema'; did you mean 'gemma'"):
        _Admin(a_catalog(a_model("gemma"))).operations.explain("gema")
    with pytest.raises(NotFound, match="the catalog is empty"):
        _Admin().operations.explain("gemma")


def test_the_hold_of_a_starting_server_shows_in_status_and_explanations() -> None:
    admin = _Admin(a_catalog(a_model()), known=("n1",))

    held = admin.operations.status().hold, admin.operations.explain("gemma").why_not
    admin.fleet.register(an_introduction(), connection=1, on_the_way={})

    assert held[0] is not None
    assert held[0] == held[1]
    assert admin.operations.status().hold is None


def test_status_counts_nodes_models_and_replicas() -> None:
    admin = _Admin(a_catalog(a_model("a"), a_model("b"), a_model("off", replicas=0)))
    admin.fleet.register(
        an_introduction("n1", shards=(a_shard("a"), a_shard("b", phase=Phase.FAILED), a_shard("a", rank=1))),
        connection=1,
        on_the_way={},
    )
    admin.fleet.register(an_introduction("n2"), connection=2, on_the_way={})
    admin.fleet.disconnected("n2", connection=2)
    admin.operations.catalog_problem = "catalog.yaml:3: no"

    status = admin.operations.status()

    assert (status.version, status.epoch, status.started_at) == ("1.0", 5, admin.clock.at())
    assert (status.models_wanted, status.models_ready) == (2, 1)
    assert status.nodes == {"ready": 1, "unreachable": 1}
    assert status.replicas == {"ready": 1, "failed": 1}
    assert status.catalog_problem == "catalog.yaml:3: no"
    assert admin.operations.fleet() is admin.fleet.value


async def test_a_new_key_is_shown_once_stored_as_its_digest_and_opens_the_door_at_once() -> None:
    admin = _Admin()

    key, record = await admin.create(models=("gemma",))

    assert key.startswith(KEY_PREFIX)
    assert len(key) >= len(KEY_PREFIX) + 43
    assert record.digest == digest_of(key)
    assert key.startswith(record.prefix)
    assert len(record.prefix) <= len(KEY_PREFIX) + 4
    assert find_key(admin.keyrings[-1], key.encode(), admin.clock.at()) == record
    assert admin.operations.keys() == (record,)


async def test_a_revoked_key_is_refused_at_once() -> None:
    admin = _Admin()
    key, record = await admin.create()

    revoked = await admin.operations.revoke_key(record.id)

    denied = find_key(admin.keyrings[-1], key.encode(), admin.clock.at())
    assert isinstance(denied, Denied)
    assert "was revoked" in denied.message
    assert revoked.revoked_at == admin.clock.at()
    assert admin.operations.keys() == (revoked,)


async def test_a_key_that_is_not_there_cannot_be_revoked() -> None:
    with pytest.raises(NotFound):
        await _Admin().operations.revoke_key(7)


async def test_what_the_store_does_not_take_changes_no_key() -> None:
    admin = _Admin()
    _, record = await admin.create()
    admin.keys.broken = True

    with pytest.raises(StoreFailed):
        await admin.create("other")
    with pytest.raises(StoreFailed):
        await admin.operations.revoke_key(record.id)

    assert admin.operations.keys() == (record,)
    assert len(admin.keyrings) == 1


@pytest.mark.parametrize("name", ["", " ci", "ci\n", "x" * 97, "a\tb"])
async def test_a_key_needs_a_name_that_a_list_can_show(name: str) -> None:
    with pytest.raises(BadInput) as caught:
        await _Admin().create(name)

    assert [problem.where() for problem in caught.value.problems] == ["name"]


async def test_a_key_that_has_expired_before_it_is_made_is_refused() -> None:
    admin = _Admin()

    with pytest.raises(BadInput) as caught:
        await admin.create(expires_at=admin.clock.at())
    _, record = await admin.create(expires_at=admin.clock.at() + timedelta(days=1))

    assert caught.value.problems[0].where() == "expires_at"
    assert record.expires_at is not None


async def test_keys_are_read_at_start_and_the_admin_door_finds_them() -> None:
    admin = _Admin()
    key, record = await admin.create(scope=Scope.ADMIN)
    later = _Admin()
    later.keys.records = admin.keys.records

    before = later.operations.find_admin_key(key.encode())
    await later.operations.load_keys()

    assert isinstance(before, Denied)
    assert later.operations.find_admin_key(key.encode()) == record
    assert later.keyrings == [{record.digest: record}]


def test_a_model_is_rolled_by_its_name_or_an_alias_and_none_that_does_not_exist() -> None:
    admin = _Admin(a_catalog(a_model(aliases=("small",))))
    admin.fleet.register(an_introduction(shards=(a_shard(),)), connection=1, on_the_way={})

    roll = admin.operations.roll("small", every=True)

    assert (roll.model, roll.left) == ("gemma", 1)
    with pytest.raises(NotFound):
        admin.operations.roll("none", every=True)


async def test_a_catalog_that_is_not_applied_is_explained_beside_the_stored_one() -> None:
    admin = _Admin(a_catalog(a_model("old")))
    admin.fleet.register(an_introduction(), connection=1, on_the_way={})

    wanted = catalog_data({"name": "new", "fallback": ["old"], "profiles": [{"min_memory_gb": 100}]})
    explained = admin.operations.explain("new", wanted)

    assert (explained.model, explained.ready, explained.next) == ("new", 0, None)
    assert [answer.verdict.rule for answer in explained.nodes if answer.verdict] == ["memory"]
    assert admin.operations.catalog() == a_catalog(a_model("old"))
    assert admin.operations.explain("old", wanted).next is not None


async def test_a_catalog_that_cannot_be_used_is_not_explained() -> None:
    admin = _Admin()

    with pytest.raises(BadInput) as caught:
        admin.operations.explain("new", catalog_data({"name": "new", "replicas": -1}))

    assert [problem.where() for problem in caught.value.problems] == ["models[0].replicas"]
