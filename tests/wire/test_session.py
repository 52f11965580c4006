"""The link against a peer that loses, doubles and delays, as a state machine, and each rule by itself."""

from typing import Any

from fakes.frames import FROM_AGENT, SPEC, STATE
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from llmgw.wire.frames import (
    Ack,
    DrainShard,
    Heartbeat,
    Provision,
    RemoveWeights,
    ShardStatus,
    StartShard,
    StopShard,
)
from llmgw.wire.session import Link

PROVISION = Provision(engine="llama.cpp", version="b1")
REMOVE = RemoveWeights(names=("0a1b",))
MOOT = (StartShard, StopShard, DrainShard, ShardStatus)
EDGES = (
    StartShard(spec=SPEC),
    StopShard(shard=SPEC.shard, generation=SPEC.generation),
    DrainShard(shard=SPEC.shard, generation=SPEC.generation),
    ShardStatus(state=STATE),
)


def _link() -> Link:
    return Link(dead_after_s=15.0, now=0.0)


def test_sent_frames_are_numbered_from_one_and_kept_until_their_ack() -> None:
    link = _link()

    first, second = link.send(PROVISION), link.send(REMOVE)
    answered = link.receive(Ack(seq=1), now=1.0)

    assert (first.seq, second.seq) == (1, 2)
    assert answered.answered == first
    assert answered.deliver is None
    assert link.awaiting == (second,)


def test_an_ack_carries_why_the_peer_refused() -> None:
    link = _link()
    sent = link.send(PROVISION)

    answer = link.receive(Ack(seq=1, error="no such engine"), now=1.0)

    assert (answer.answered, answer.error) == (sent, "no such engine")


def test_an_ack_of_nothing_answers_nothing() -> None:
    assert _link().receive(Ack(seq=9), now=1.0).answered is None


def test_a_number_seen_twice_on_a_connection_is_acknowledged_and_not_delivered_again() -> None:
    link = _link()
    frame = FROM_AGENT["shard-status"]

    first, again = link.receive(frame, now=1.0), link.receive(frame, now=2.0)

    assert (first.deliver, first.ack) == (frame, 5)
    assert (again.deliver, again.ack) == (None, 5)


def test_a_frame_without_a_number_is_delivered_each_time_and_asks_for_no_ack() -> None:
    link = _link()

    received = [link.receive(Heartbeat(), now=float(second)) for second in range(3)]

    assert [r.deliver for r in received] == [Heartbeat()] * 3
    assert [r.ack for r in received] == [None] * 3


def test_what_the_register_makes_moot_is_not_sent_again() -> None:
    link = _link()
    for frame in EDGES:
        link.send(frame)
    kept = link.send(PROVISION)

    again = link.reopen(now=5.0)

    assert again == (kept,)
    assert link.awaiting == (kept,)


def test_a_new_connection_forgets_the_numbers_of_the_old_one_and_goes_on_counting_its_own() -> None:
    # A peer that restarted counts from one again; this side did not restart.
    link = _link()
    link.receive(FROM_AGENT["shard-status"], now=1.0)
    link.send(PROVISION)

    link.reopen(now=2.0)

    assert link.receive(FROM_AGENT["shard-status"], now=3.0).deliver == FROM_AGENT["shard-status"]
    assert link.send(REMOVE).seq == 2


def test_only_the_newest_numbers_are_remembered_so_that_memory_stays_bounded() -> None:
    link = _link()

    for seq in range(1, 10_001):
        link.receive(ShardStatus(seq=seq, state=STATE), now=1.0)

    assert link.receive(ShardStatus(seq=10_000, state=STATE), now=1.0).deliver is None
    assert link.receive(ShardStatus(seq=10_000 - 4095, state=STATE), now=1.0).deliver is None
    assert link.receive(ShardStatus(seq=1, state=STATE), now=1.0).deliver is not None


def test_a_silent_peer_is_dead_and_any_frame_or_reconnect_is_a_sign_of_life() -> None:
    link = _link()

    assert not link.is_dead(14.9)
    assert link.is_dead(15.0)
    link.receive(Ack(seq=1), now=15.0)
    assert not link.is_dead(29.0)
    link.reopen(now=40.0)
    assert not link.is_dead(54.0)


class _TwoEnds(RuleBasedStateMachine):
    """Server and agent over a connection that may drop what is on the way whenever it is cut."""

    def __init__(self) -> None:
        super().__init__()
        self.sender, self.receiver = _link(), _link()
        self.on_the_way: list[Any] = []
        self.acks: list[Ack] = []
        self.sent: list[Any] = []
        self.acked: set[int] = set()
        self.moot: set[int] = set()
        self.delivered: list[int] = []

    @rule(frame=st.sampled_from([PROVISION, REMOVE, *EDGES]))
    def send(self, frame: Any) -> None:
        numbered = self.sender.send(frame)
        self.sent.append(numbered)
        self.on_the_way.append(numbered)

    @precondition(lambda self: self.on_the_way)
    @rule(doubled=st.booleans())
    def arrive(self, doubled: bool) -> None:
        frame = self.on_the_way.pop(0)
        for _ in range(1 + doubled):
            received = self.receiver.receive(frame, now=1.0)
            if received.deliver is not None:
                self.delivered.append(received.deliver.seq)
            assert received.ack == frame.seq
            self.acks.append(Ack(seq=frame.seq))

    @precondition(lambda self: self.acks)
    @rule()
    def acknowledge(self) -> None:
        ack = self.acks.pop(0)
        answered = self.sender.receive(ack, now=1.0).answered
        assert (answered is None) == (ack.seq in self.acked)
        self.acked.add(ack.seq)

    @rule()
    def reconnect(self) -> None:
        self.moot |= {f.seq for f in self.sent if isinstance(f, MOOT) and f.seq not in self.acked}
        self.acks.clear()
        self.delivered.clear()
        self.receiver.reopen(now=1.0)
        again = self.sender.reopen(now=1.0)
        self.on_the_way = list(again)
        wanted = [f for f in self.sent if f.seq not in self.acked | self.moot]
        assert list(again) == wanted

    @invariant()
    def nothing_is_delivered_twice_on_a_connection_and_the_order_is_kept(self) -> None:
        assert self.delivered == sorted(set(self.delivered))

    @invariant()
    def what_awaits_an_ack_is_what_was_sent_and_neither_acknowledged_nor_moot(self) -> None:
        wanted = [f for f in self.sent if f.seq not in self.acked | self.moot]
        assert list(self.sender.awaiting) == wanted


_TwoEnds.TestCase.settings = settings(max_examples=200, stateful_step_count=40, deadline=None)


class TestTwoEnds(_TwoEnds.TestCase):  # type: ignore[misc, name-defined]
    """Both ends under every interleaving that hypothesis finds."""
