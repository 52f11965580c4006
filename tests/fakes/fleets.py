"""An observed fleet made from introductions, as if each node had just registered."""

from datetime import UTC, datetime

from llmgw.core.fleet.snapshot import Fleet, Introduction, register

AT = datetime(2030, 1, 1, tzinfo=UTC)


def a_fleet(*said: Introduction, now: float = 0.0, at: datetime = AT) -> Fleet:
    fleet = Fleet()
    for number, one in enumerate(said, start=1):
        fleet = register(fleet, one, connection=number, now=now, at=at)
    return fleet
