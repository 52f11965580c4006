"""When most of a fleet falls silent at once: an alarm, and not a reason to start everything elsewhere.

Rules:

1. A node that went away is undecided until it is declared lost, which is one lost-timeout later. So the undecided are
   those that went within one lost-timeout.
2. When there are three nodes or more, connected and undecided together, and more than half of them are undecided, the
   alarm is raised. While it lasts nobody is declared lost, and who goes meanwhile joins it.
3. It ends when no more than half of the fleet it was raised over is still away, or when an operator says that those
   who are away are gone. What an operator accepted raises no other alarm; a node that was back counts anew.
"""

from collections.abc import Mapping
from datetime import datetime

import msgspec
from msgspec.structs import replace

LEAST_NODES = 3
_NAMED = 8


class Alarm(msgspec.Struct, frozen=True, kw_only=True):
    """Most of the fleet is silent.

    Attributes:
        since: when it was raised.
        nodes: who is away, in the order of names.
        fleet: how many nodes there were when it was raised, those that are away included.
    """

    since: datetime
    nodes: tuple[str, ...]
    fleet: int


class Silence(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of silence in the fleet.

    Attributes:
        accepted: departures that an operator has accepted: nodes, each with the number of the connection that ended.
    """

    alarm: Alarm | None = None
    accepted: dict[str, int] = {}


def watch(silence: Silence, *, connected: int, undecided: Mapping[str, int], at: datetime) -> Silence:
    """Look at who is away now: raise the alarm, let it grow, or end it.

    Args:
        connected: how many nodes are connected.
        undecided: nodes that are away and not declared lost, each with the number of its last connection.
    """
    accepted = {node: number for node, number in silence.accepted.items() if undecided.get(node) == number}
    away = tuple(sorted(undecided.keys() - accepted.keys()))
    alarm = silence.alarm
    if alarm is None:
        alarm = _raised(away, connected, at)
    elif len(away) * 2 <= alarm.fleet:
        alarm = None
    elif away != alarm.nodes:
        alarm = replace(alarm, nodes=away)
    same = alarm is silence.alarm and accepted == silence.accepted
    return silence if same else Silence(alarm=alarm, accepted=accepted)


def accept(silence: Silence, undecided: Mapping[str, int]) -> Silence:
    """Take an operator's word that those who are away are gone: the alarm ends, and they are as lost as any."""
    if silence.alarm is None:
        return silence
    return Silence(accepted=silence.accepted | dict(undecided))


def alarm_text(alarm: Alarm) -> str:
    """Say what the alarm means, who is away and what to do."""
    more = len(alarm.nodes) - _NAMED
    names = ", ".join(alarm.nodes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
    return (
        f"{len(alarm.nodes)} of {alarm.fleet} nodes fell silent together ({names}); nothing of theirs is placed "
        "elsewhere until they return, or 'llmgw ctl alarm clear' says that they are gone"
    )


def _raised(away: tuple[str, ...], connected: int, at: datetime) -> Alarm | None:
    fleet = connected + len(away)
    if fleet < LEAST_NODES or len(away) * 2 <= fleet:
        return None
    return Alarm(since=at, nodes=away, fleet=fleet)
