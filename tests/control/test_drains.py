from fakes.command_log import CommandLog
from fakes.fleets import a_fleet
from fakes.load import FakeLoad
from fakes.nodes import a_shard, an_introduction

from llmgw.control.drains import Drains
from llmgw.core.fleet.shards import Phase
from llmgw.core.fleet.snapshot import Fleet, told_to_stop
from llmgw.core.ids import Generation
from llmgw.core.reconcile import Stop

FIRST = Generation(1, 1)
COPY = ("gemma.0", FIRST)
STOP = Stop(
    node="n1", shard="gemma.0.0", replica="gemma.0", generation=FIRST, because="it is rolled", serves=True
)
DRAINING = told_to_stop(a_fleet(an_introduction(shards=(a_shard(),))), "n1", "gemma.0.0", FIRST)


class _Ending:
    def __init__(self, in_flight: int = 0) -> None:
        self.commands, self.load = CommandLog(), FakeLoad()
        self.load.counts[COPY] = in_flight
        self.drains = Drains(self.commands, self.load, deadline_s=30.0)


def test_what_serves_nobody_is_stopped_at_once() -> None:
    ending = _Ending(in_flight=0)

    assert ending.drains.end(STOP, 0.0)

    assert ending.commands.stops == [("n1", "gemma.0.0", FIRST, "it is rolled")]
    assert not ending.drains.is_busy


def test_what_has_requests_in_flight_is_drained_and_stopped_when_the_last_is_finished() -> None:
    ending = _Ending(in_flight=2)

    ending.drains.end(STOP, 0.0)
    ending.drains.end_idle(DRAINING, 1.0)
    busy = ending.drains.is_busy, list(ending.commands.stops)
    ending.load.counts[COPY] = 0
    ending.drains.end_idle(DRAINING, 1.0)

    assert ending.commands.drains == [("n1", "gemma.0.0", FIRST, 30.0)]
    assert busy == (True, [])
    assert ending.commands.stops == [("n1", "gemma.0.0", FIRST, "it has finished what was in flight")]
    assert not ending.drains.is_busy


def test_what_is_not_ready_is_not_asked_for_requests() -> None:
    ending = _Ending(in_flight=2)

    ending.drains.end(
        Stop(node="n1", shard="gemma.0.0", replica="gemma.0", generation=FIRST, because="it failed"), 0.0
    )

    assert len(ending.commands.stops) == 1


def test_a_node_that_cannot_be_told_is_not_draining() -> None:
    ending = _Ending(in_flight=2)
    ending.commands.deaf = {"n1"}

    assert not ending.drains.end(STOP, 0.0)

    assert not ending.drains.is_busy


def test_a_stop_that_cannot_be_told_is_told_when_the_node_is_back() -> None:
    ending = _Ending(in_flight=1)
    ending.drains.end(STOP, 0.0)
    ending.load.counts[COPY] = 0

    ending.commands.deaf = {"n1"}
    ending.drains.end_idle(DRAINING, 1.0)
    ending.commands.deaf = set()
    ending.drains.end_idle(DRAINING, 1.0)

    assert len(ending.commands.stops) == 1


def test_what_has_ended_or_is_of_another_generation_or_stays_after_all_is_forgotten() -> None:
    later = a_fleet(an_introduction(shards=(a_shard(generation=(1, 2)),)))
    kept = a_fleet(an_introduction(shards=(a_shard(),)))

    for fleet in (Fleet(), a_fleet(an_introduction()), later, kept):
        ending = _Ending(in_flight=1)
        ending.drains.end(STOP, 0.0)
        ending.load.counts[COPY] = 0
        ending.drains.end_idle(fleet, 1.0)
        assert not ending.drains.is_busy
        assert ending.commands.stops == []


def test_a_shard_that_says_itself_that_it_drains_is_stopped_after_a_reconnect_too() -> None:
    ending = _Ending(in_flight=1)
    ending.drains.end(STOP, 0.0)
    ending.load.counts[COPY] = 0

    ending.drains.end_idle(a_fleet(an_introduction(shards=(a_shard(phase=Phase.DRAINING),))), 1.0)

    assert len(ending.commands.stops) == 1


def test_what_an_agent_has_not_ended_in_its_time_is_stopped_all_the_same() -> None:
    ending = _Ending(in_flight=1)
    ending.drains.end(STOP, 0.0)

    ending.drains.end_idle(DRAINING, 34.9)
    in_time = list(ending.commands.stops)
    ending.drains.end_idle(DRAINING, 35.0)

    assert in_time == []
    assert ending.commands.stops == [("n1", "gemma.0.0", FIRST, "its time to finish is over")]


FOLLOWER = Stop(
    node="n2", shard="gemma.0.1", replica="gemma.0", generation=FIRST, because="it is rolled", follows=True
)


def _ending_gang(head: Phase | None) -> Fleet:
    """Both ranks were told to stop; `head` is where rank 0 is by now, None when it is gone."""
    heads = () if head is None else (a_shard(ranks=2, phase=head),)
    fleet = a_fleet(
        an_introduction("n1", shards=heads), an_introduction("n2", shards=(a_shard(rank=1, ranks=2),))
    )
    if heads:
        fleet = told_to_stop(fleet, "n1", "gemma.0.0", FIRST)
    return told_to_stop(fleet, "n2", "gemma.0.1", FIRST)


def test_other_ranks_drain_for_longer_than_rank_zero_and_are_stopped_when_that_is_gone() -> None:
    ending = _Ending()

    told = ending.drains.end(FOLLOWER, 0.0)
    ending.drains.end_idle(_ending_gang(Phase.DRAINING), 1.0)
    meanwhile = list(ending.commands.stops)
    ending.drains.end_idle(_ending_gang(None), 2.0)

    assert told
    assert ending.commands.drains == [("n2", "gemma.0.1", FIRST, 60.0)]
    assert meanwhile == []
    assert ending.commands.stops == [("n2", "gemma.0.1", FIRST, "rank 0 of its replica is gone")]


def test_a_rank_zero_that_failed_is_gone() -> None:
    ending = _Ending()

    ending.drains.end(FOLLOWER, 0.0)
    ending.drains.end_idle(_ending_gang(Phase.FAILED), 1.0)

    assert len(ending.commands.stops) == 1


def test_other_ranks_whose_rank_zero_never_goes_are_stopped_when_they_are_overdue() -> None:
    ending = _Ending()

    ending.drains.end(FOLLOWER, 0.0)
    ending.drains.end_idle(_ending_gang(Phase.READY), 64.9)
    before = list(ending.commands.stops)
    ending.drains.end_idle(_ending_gang(Phase.READY), 65.0)

    assert before == []
    assert ending.commands.stops == [("n2", "gemma.0.1", FIRST, "its time to finish is over")]
