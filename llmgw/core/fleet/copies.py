"""The copies of replicas that are observed: of one replica and one generation, the engine process of every rank.

Rules:

1. A copy lives and ends as a whole: it is ready when every rank is, it has failed when one has, it is ending when one
   is, and it is broken when one is nowhere.
2. One process may be told under two names, while a node that was renamed is not yet lost under its old one. A stop to
   either name would end it. So one name counts: of a node within reach, and of two alike the one that connected last.
   The other is told nothing.
3. Two nodes that both speak after both have registered are two agents, and theirs are two processes, though they say
   the same generation (a database that was restored may give one out twice). They are two copies.
4. What a lost node said last counts for nothing.
"""

from collections.abc import Collection

import msgspec

from llmgw.core.fleet.shards import LIVE, Phase, ShardState
from llmgw.core.fleet.snapshot import Fleet, Node, NodeState, is_leaving
from llmgw.core.ids import Generation

SPEAKS_S = 1.0
"""How much later than the other's registration a node must be heard; what was on its way then proves nothing."""
_ORDER = (Phase.PENDING, Phase.FETCHING, Phase.STARTING, Phase.READY, Phase.STOPPED)


class Member(msgspec.Struct, frozen=True):
    """The engine process of one rank, and the node that told of it."""

    node: Node
    state: ShardState

    @property
    def is_reachable(self) -> bool:
        """Tell whether its node can be told something."""
        return self.node.state not in (NodeState.UNREACHABLE, NodeState.LOST)

    @property
    def is_live(self) -> bool:
        """Tell whether it holds, or is about to hold, memory."""
        return self.state.phase in LIVE

    @property
    def is_leaving(self) -> bool:
        """Tell whether it was told to stop, or says that it is about to."""
        return is_leaving(self.node, self.state)


class Copy(msgspec.Struct, frozen=True):
    """One generation of a replica; made by `copy_of`.

    Attributes:
        members: of each rank that is there, in the order of ranks; one at least.
        ranks: how many processes it is made of when it is whole.
        phase: of it as a whole; draining when a rank of it is leaving, whatever that rank says.
        missing: the ranks that are nowhere, or have ended without being told to.
        lost: of the ranks whose node is lost.
        older: copies of earlier generations that serve until this one is ready, and share its fate.
    """

    members: tuple[Member, ...]
    ranks: int
    phase: Phase
    missing: tuple[int, ...]
    lost: tuple[Member, ...] = ()
    older: tuple["Copy", ...] = ()

    @property
    def lead(self) -> ShardState:
        """Give the state of its first rank; replica, model, ordinal and generation are those of all."""
        return self.members[0].state

    @property
    def replica(self) -> str:
        """Name the replica."""
        return self.lead.replica

    @property
    def model(self) -> str:
        """Name the model."""
        return self.lead.model

    @property
    def ordinal(self) -> int:
        """Say which of the model's replicas it is."""
        return self.lead.ordinal

    @property
    def generation(self) -> Generation:
        """Say which generation of the replica it is."""
        return self.lead.generation

    @property
    def is_ready(self) -> bool:
        """Tell whether every rank is there and ready."""
        return self.phase == Phase.READY and not self.missing

    @property
    def is_over(self) -> bool:
        """Tell whether nothing of it runs any more."""
        return not any(member.is_live for member in self.members)

    @property
    def is_reachable(self) -> bool:
        """Tell whether the node of every rank can be told something."""
        return all(member.is_reachable for member in self.members)

    @property
    def where(self) -> str:
        """Name its nodes."""
        return ", ".join(member.node.id for member in self.members)

    def is_strange(self, strange: Collection[tuple[str, str]]) -> bool:
        """Tell whether any of its processes is among these, each given by node and shard."""
        return any((member.node.id, member.state.shard) in strange for member in self.members)


def copy_of(members: tuple[Member, ...], lost: tuple[Member, ...] = ()) -> Copy:
    """Make the copy of these ranks, which are in their order."""
    head = members[0]
    if len(members) == 1 and head.state.ranks == 1 and not head.state.rank:
        # Nearly all are so, and there are thousands.
        phase = Phase.DRAINING if head.is_leaving and head.is_live else head.state.phase
        return Copy(members, 1, phase, (0,) if phase == Phase.STOPPED else (), lost)
    ranks = max(max(member.state.ranks, member.state.rank + 1) for member in members)
    there = {member.state.rank for member in members if member.state.phase != Phase.STOPPED}
    missing = tuple(rank for rank in range(ranks) if rank not in there)
    return Copy(members, ranks, _phase(members), missing, lost)


def _phase(members: tuple[Member, ...]) -> Phase:
    phases = {member.state.phase for member in members}
    if Phase.FAILED in phases:
        return Phase.FAILED
    if any(member.is_leaving and member.is_live for member in members):
        return Phase.DRAINING
    return next(phase for phase in _ORDER if phase in phases)


def observed_copies(fleet: Fleet) -> list[Copy]:
    """List every copy, one that was told to end included for as long as something of it runs.

    Of two copies with one generation the one that counts comes last.
    """
    found: dict[tuple[str, Generation], list[Member]] = {}
    lost: dict[tuple[str, Generation], list[Member]] = {}
    for node in fleet.nodes.values():
        gone = node.state == NodeState.LOST
        for state in node.shards.values():
            member, key = Member(node, state), (state.replica, state.generation)
            if gone:
                lost.setdefault(key, []).append(member)
            elif member.is_live or not member.is_leaving:
                found.setdefault(key, []).append(member)
    return [copy for key, members in found.items() for copy in _copies(members, lost.get(key, ()))]


def truer(one: Member, other: Member) -> Member:
    """Choose between two nodes that tell of the same process, or of two with one generation."""
    return max(one, other, key=_truth)


def are_two(one: Member, other: Member) -> bool:
    """Tell whether two nodes that tell of one shard in one generation tell of two processes."""
    first, second = sorted((one.node, other.node), key=lambda node: node.connection)
    speaks = first.said_now >= second.registered_now + SPEAKS_S
    return speaks and one.is_reachable and other.is_reachable


def _copies(members: list[Member], lost: Collection[Member]) -> list[Copy]:
    if len(members) == 1 and not lost:
        return [copy_of((members[0],))]
    ranks: dict[int, Member] = {}
    second: dict[int, Member] = {}
    for member in sorted(members, key=_truth):
        rank = member.state.rank
        if rank in ranks and are_two(ranks[rank], member):
            second[rank] = ranks[rank]
        ranks[rank] = member
    gone = tuple(member for member in lost if member.state.rank not in ranks)
    copies = [copy_of(_in_order(second))] if second else []
    return [*copies, copy_of(_in_order(ranks), gone)]


def _in_order(ranks: dict[int, Member]) -> tuple[Member, ...]:
    return tuple(ranks[rank] for rank in sorted(ranks))


def _truth(member: Member) -> tuple[bool, bool, int, str]:
    node = member.node
    # The name comes last, so that two that are alike are chosen between in the same way each time.
    return node.state != NodeState.LOST, member.is_reachable, node.connection, node.id
