from datetime import UTC, datetime, timedelta

import pytest
from fakes.catalogs import a_catalog, a_model, a_profile
from fakes.fleets import AT, a_fleet
from fakes.nodes import a_shard, an_introduction
from fakes.sample_fleet import NOW, PROFILE, sample_catalog, sample_fleet

from llmgw.core.accounts.access import KeyRecord, Scope
from llmgw.core.fleet.events import NodeEvent
from llmgw.core.fleet.hardware import Filesystem, Machine, Processor
from llmgw.core.fleet.orders import Orders, begin_roll, stopped
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.silence import Alarm
from llmgw.core.fleet.snapshot import Fleet, NodeState, intended, shard_reported, told_to_stop
from llmgw.core.ids import Generation
from llmgw.ui.present.keys import key_view, new_key_view
from llmgw.ui.present.models import model_views
from llmgw.ui.present.nodes import node_views
from llmgw.ui.present.replicas import replica_views
from llmgw.ui.present.status import StatusView, status_view

LATER = AT + timedelta(seconds=NOW)


def _quiet(node: str) -> tuple[NodeEvent, ...]:
    return ()


def test_a_node_shows_its_state_and_since_when_and_its_last_sign_of_life() -> None:
    big, _, small = node_views(sample_fleet(), _quiet, now=NOW, at=LATER)

    assert (big.state, big.since_s, big.last_seen_s) == (NodeState.READY, 100.0, 2.0)
    assert (small.state, small.since, small.last_seen_s) == (NodeState.UNREACHABLE, AT, 100.0)


def test_what_a_node_does_not_say_is_unknown_and_no_warning() -> None:
    old = node_views(sample_fleet(), _quiet, now=NOW, at=LATER)[1]

    unknown = (
        old.memory_total_bytes,
        old.disk_free_bytes,
        old.filesystems,
        old.engines,
        old.cpu.cores,
        old.version,
    )
    assert set(unknown) == {None}
    assert old.warnings == ()


def test_disks_that_several_nodes_share_count_for_none_of_them() -> None:
    disks = (
        Filesystem(mount="/", total_bytes=100, free_bytes=40),
        Filesystem(mount="/data", total_bytes=10, free_bytes=None),
        Filesystem(mount="/srv", total_bytes=1000, free_bytes=1000, shared=True),
    )
    fleet = a_fleet(an_introduction(machine=Machine(filesystems=disks)))

    node = node_views(fleet, _quiet, now=0.0, at=AT)[0]

    assert (node.disk_total_bytes, node.disk_free_bytes) == (110, 40)


@pytest.mark.parametrize(
    ("processor", "warns"),
    [
        (Processor(architecture="x86_64", vector=("sse4_2",)), True),
        (Processor(architecture="x86_64", vector=("avx2",)), False),
        (Processor(architecture="x86_64", vector=None), False),
        (Processor(architecture="aarch64", vector=("asimd",)), False),
    ],
)
def test_a_processor_without_avx2_is_warned_of_when_it_said_so(processor: Processor, warns: bool) -> None:
    """NODE-7."""
    fleet = a_fleet(an_introduction(machine=Machine(processor=processor)))

    warnings = node_views(fleet, _quiet, now=0.0, at=AT)[0].warnings

    assert any("no AVX2" in warning for warning in warnings) == warns


def test_a_node_known_to_have_no_engine_is_warned_of() -> None:
    fleet = a_fleet(an_introduction(engines=()))

    assert node_views(fleet, _quiet, now=0.0, at=AT)[0].warnings == (
        "it has no engine; install one there or name it under engines in its agent.yaml",
    )


def test_a_replica_is_current_stale_or_unknown() -> None:
    """RUN-10."""
    catalog = a_catalog(a_model("gemma", replicas=4, profiles=(PROFILE,)))
    shards = (
        a_shard("gemma", 0, fingerprint=PROFILE.fingerprint()),
        a_shard("gemma", 1, fingerprint=a_profile(context=1).fingerprint()),
        a_shard("gemma", 2, fingerprint=None),
        a_shard("left", 0, fingerprint=PROFILE.fingerprint()),
    )

    views = replica_views(catalog, a_fleet(an_introduction(shards=shards)), now=0.0, at=AT)

    assert [(view.id, view.stale) for view in views] == [
        ("gemma.0", "current"),
        ("gemma.1", "stale"),
        ("gemma.2", "unknown"),
        ("left.0", "stale"),
    ]


def test_a_failed_replica_shows_why_its_last_output_and_when_it_is_tried_again() -> None:
    failed = replica_views(sample_catalog(), sample_fleet(), now=NOW - 2.5, at=LATER)[1]

    assert (failed.phase, failed.exit_status, failed.failures) == (Phase.FAILED, -9, 1)
    assert failed.reason is not None
    assert failed.reason.startswith("cannot open /srv/models/gemma.gguf on small")
    assert failed.tail[0] == "loading model"
    assert failed.next_try_s == 0.5
    assert failed.address is None


def test_a_replica_that_has_not_failed_waits_for_no_try() -> None:
    ready = replica_views(sample_catalog(), sample_fleet(), now=NOW, at=LATER)[0]

    assert (ready.next_try_s, ready.generation, ready.address) == (None, "1.1", "10.0.0.1:9001")
    assert (ready.since_s, ready.node_state) == (7300.0, NodeState.READY)


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    fleet = a_fleet(an_introduction(address="fd00::1", shards=(a_shard(),)))

    assert replica_views(a_catalog(), fleet, now=0.0, at=AT)[0].address == "[fd00::1]:9001"


def test_a_replica_that_was_told_to_stop_is_leaving() -> None:
    fleet = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", Generation(1, 1))

    assert replica_views(a_catalog(), fleet, now=0.0, at=AT)[0].leaving


def test_a_model_says_why_it_is_not_served_only_while_it_is_not() -> None:
    catalog = sample_catalog()

    gemma, qwen, resting = model_views(catalog, sample_fleet(), hold="waiting for n9", now=NOW, at=LATER)

    assert (gemma.wanted, gemma.ready, gemma.why_not) == (2, 1, None)
    assert (qwen.ready, qwen.why_not) == (0, "waiting for n9")
    assert resting.why_not is not None
    assert resting.why_not.startswith("model 'resting' has 0 replicas")


def test_the_status_counts_and_names_what_needs_somebody() -> None:
    status = status_view(
        sample_catalog(),
        sample_fleet(),
        version="1",
        epoch=3,
        started_at=AT,
        hold="waiting for n9",
        catalog_problem="catalog.yaml:1: unknown key",
        now=NOW,
        at=LATER,
    )

    assert (status.nodes, status.replicas) == ({"ready": 2, "unreachable": 1}, {"failed": 1, "ready": 1})
    assert (status.models, status.served, status.wanted, status.ready) == (3, 1, 3, 1)
    assert status.up_s == NOW
    assert status.problems == (
        "catalog.yaml:1: unknown key",
        "node small is unreachable for 100 s",
        "node small: its processor has no AVX2, which makes engines about five times slower",
        "node small: llama.cpp at /usr/bin/llama-server cannot be used: libgomp.so.1 is missing",
        "waiting for n9",
    )


def test_a_fleet_in_good_order_has_no_problem() -> None:
    fleet = a_fleet(an_introduction())
    fleet = shard_reported(fleet, "n1", a_shard(), connection=1, now=0.0)

    status = status_view(
        a_catalog(a_model()),
        fleet,
        version="1",
        epoch=1,
        started_at=AT,
        hold=None,
        catalog_problem=None,
        now=0.0,
        at=AT,
    )

    assert (status.problems, status.served) == ((), 1)


RECORD = KeyRecord(
    id=1,
    name="me",
    prefix="sk-llmgw-abcd",
    digest=b"secret" * 5,
    scope=Scope.ADMIN,
    created_at=AT,
    expires_at=LATER,
)


@pytest.mark.parametrize(
    ("revoked_at", "at", "state"),
    [
        (None, AT, "active"),
        (None, LATER, "expired"),
        (AT, AT, "revoked"),
        (AT, LATER, "revoked"),
    ],
)
def test_a_key_is_active_expired_or_revoked(revoked_at: datetime | None, at: datetime, state: str) -> None:
    record = KeyRecord(
        **{name: getattr(RECORD, name) for name in RECORD.__struct_fields__} | {"revoked_at": revoked_at}
    )

    assert key_view(record, at).state == state


def test_a_key_is_shown_without_its_digest_and_only_a_new_one_with_itself() -> None:
    assert not hasattr(key_view(RECORD, datetime(2029, 1, 1, tzinfo=UTC)), "digest")
    assert new_key_view("sk-llmgw-abcdef", RECORD, AT).key == "sk-llmgw-abcdef"


def test_a_list_of_nodes_shows_the_last_events_of_each_and_what_is_wanted_of_it() -> None:
    fleet = intended(a_fleet(an_introduction()), "n1", NodeState.CORDONED, at=AT)
    events = tuple(NodeEvent(at=AT, node="n1", kind="state", text=str(i)) for i in range(30))

    (node,) = node_views(fleet, lambda name: events, now=0.0, at=AT)

    assert [event.text for event in node.events] == [str(i) for i in range(20, 30)]
    assert node.wanted == NodeState.CORDONED


def _status(alarm: Alarm | None = None, absent: tuple[str, ...] = (), hold: str | None = None) -> StatusView:
    return status_view(
        a_catalog(),
        Fleet(),
        version="1",
        epoch=1,
        started_at=AT,
        hold=hold,
        catalog_problem=None,
        alarm=alarm,
        absent=absent,
        now=0.0,
        at=LATER,
    )


def test_the_alarm_of_silence_is_the_first_problem_and_says_who_and_since_when() -> None:
    view = _status(Alarm(since=AT, nodes=("n1", "n2"), fleet=3))

    assert view.alarm is not None
    assert (view.alarm.nodes, view.alarm.fleet, view.alarm.since_s) == (("n1", "n2"), 3, NOW)
    assert view.problems[0].startswith("alarm: 2 of 3 nodes fell silent together (n1, n2); nothing of theirs")
    assert _status().alarm is None


def test_a_known_node_that_has_not_registered_is_a_problem_once_nothing_waits_for_it() -> None:
    waiting, afterwards = _status(absent=("n9",), hold="waiting for n9"), _status(absent=("n9",))

    assert waiting.problems == ()
    assert waiting.absent == afterwards.absent == ("n9",)
    assert "'llmgw ctl nodes forget n9'" in afterwards.problems[0]


def test_a_model_shows_how_far_its_roll_is() -> None:
    model = a_model(replicas=2)
    fleet = a_fleet(an_introduction(shards=(a_shard(fingerprint="0" * 16), a_shard(ordinal=1))))
    roll = begin_roll(model, fleet, every=True)
    rolls = {"going": roll, "stopped": stopped(roll, "it failed")}

    views = {
        name: model_views(a_catalog(model), fleet, hold=None, now=0.0, at=AT, rolls={"gemma": one})[0].roll
        for name, one in rolls.items()
    }

    assert [(v.state, v.total, v.replaced, v.why) for v in views.values() if v] == [
        ("rolling", 2, 0, None),
        ("stopped", 2, 0, "it failed"),
    ]


def test_a_replica_that_is_to_go_says_why() -> None:
    model = a_model(replicas=3)
    fleet = a_fleet(
        an_introduction("n1", shards=(a_shard(),)),
        an_introduction("n2", shards=(a_shard(ordinal=1), a_shard(ordinal=2), a_shard("other"))),
    )
    fleet = intended(fleet, "n1", NodeState.DRAINING, at=AT)
    orders = Orders(
        rolls={"gemma": begin_roll(model, fleet, every=True)}, restarts={"gemma.2": Generation(1, 1)}
    )

    views = replica_views(a_catalog(model), fleet, now=0.0, at=AT, orders=orders)

    assert [(v.id, v.going) for v in views] == [
        ("gemma.0", "its node is drained"),
        ("gemma.1", "it is rolled"),
        ("gemma.2", "it is restarted"),
        ("other.0", None),
    ]
