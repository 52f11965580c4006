"""Engine processes of replicas: what each is, its phases and which phase may follow which."""

from enum import StrEnum

import msgspec

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.weights import Progress
from llmgw.core.ids import Generation


class Phase(StrEnum):
    """Where an engine process is in its life."""

    PENDING = "pending"
    FETCHING = "fetching"
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    STOPPED = "stopped"
    FAILED = "failed"


TRANSITIONS: dict[Phase, frozenset[Phase]] = {
    Phase.PENDING: frozenset({Phase.FETCHING, Phase.STARTING, Phase.STOPPED, Phase.FAILED}),
    Phase.FETCHING: frozenset({Phase.STARTING, Phase.STOPPED, Phase.FAILED}),
    Phase.STARTING: frozenset({Phase.READY, Phase.STOPPED, Phase.FAILED}),
    Phase.READY: frozenset({Phase.DRAINING, Phase.STOPPED, Phase.FAILED}),
    Phase.DRAINING: frozenset({Phase.STOPPED, Phase.FAILED}),
    Phase.STOPPED: frozenset(),
    Phase.FAILED: frozenset({Phase.STOPPED}),
}
"""What may follow each phase within one generation; a new generation begins at pending."""

LIVE = frozenset({Phase.PENDING, Phase.FETCHING, Phase.STARTING, Phase.READY, Phase.DRAINING})
"""Phases in which the shard holds, or is about to hold, memory."""


class Gang(msgspec.Struct, frozen=True, kw_only=True):
    """What the processes of a replica on several nodes must know of each other.

    Attributes:
        addresses: of their nodes, by rank; as many as there are ranks.
        port: where rank 0 waits for the others; a later generation is given another.
        fabric: the network that they share; None when none was asked for.
        adapters: of that network, by rank; empty when none was asked for.
        ports: where the ranks listen for each other, by rank, where the engine needs that.
    """

    addresses: tuple[str, ...]
    port: int
    fabric: str | None = None
    adapters: tuple[str, ...] = ()
    ports: tuple[int, ...] = ()


class Claim(msgspec.Struct, frozen=True, kw_only=True):
    """What a shard was promised of its node; it counts before it shows in free memory.

    Attributes:
        memory_bytes: of main memory.
        gpus: uuids of the GPUs that are its own.
        gpu_bytes: of the memory of each of them; None takes them whole.
        disk_bytes: for weights that are still to be fetched.
        fetches: name in the cache of those weights; who waits for the same ones waits for the same bytes.
    """

    memory_bytes: int | None = None
    gpus: tuple[str, ...] = ()
    gpu_bytes: int | None = None
    disk_bytes: int | None = None
    fetches: str | None = None


class ShardSpec(msgspec.Struct, frozen=True, kw_only=True):
    """All that an agent needs to run one engine process.

    Attributes:
        shard: its id, e.g. "gemma.0.0".
        replica: the replica it belongs to, e.g. "gemma.0".
        ordinal: which of the model's replicas that is.
        rank: its place in a replica of several processes; rank 0 serves HTTP.
        fingerprint: of the profile, kept so that a stale copy can be told.
        claim: what it was promised; None from a server that does not say.
        gang: what it must know of the other ranks; None when it is the only one.
    """

    shard: str
    replica: str
    model: str
    ordinal: int
    rank: int = 0
    generation: Generation
    fingerprint: str
    profile: Profile
    claim: Claim | None = None
    gang: Gang | None = None


class ShardState(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent says about one engine process.

    Attributes:
        profile: name of the profile it was started from.
        fingerprint: of that profile; None from an agent too old to say.
        address: host and port that rank 0 serves HTTP on, once known.
        since_s: Unix seconds at which this phase began, by the node's clock.
        reason: why it is in this phase, in the node's words.
        exit_status: what the process ended with; negative is the number of a signal.
        tail: the last lines of its output, when it failed.
        min_memory_gb: what the profile asked for, so that its claim is known before it shows in free memory.
        tasks: the endpoints under /v1 it answers as it was started; None from an agent that does not say.
        capacity: requests it serves at once as it was started; None from an agent that does not say.
        claim: what it was promised; None from an agent that does not say, of which min_memory_gb tells.
        ranks: how many processes its replica has.
        progress: of the download it waits for; None when there is none.
        engine_version: of the engine it was started with, as that says it; None before, and where nobody says.
    """

    shard: str
    replica: str
    model: str
    ordinal: int = 0
    rank: int = 0
    generation: Generation
    phase: Phase
    fingerprint: str | None = None
    profile: str | None = None
    engine: str | None = None
    host: str | None = None
    port: int | None = None
    pid: int | None = None
    since_s: float | None = None
    reason: str | None = None
    exit_status: int | None = None
    tail: tuple[str, ...] = ()
    min_memory_gb: float | None = None
    tasks: tuple[str, ...] | None = None
    capacity: int | None = None
    claim: Claim | None = None
    ranks: int = 1
    progress: Progress | None = None
    engine_version: str | None = None


def pending_state(spec: ShardSpec) -> ShardState:
    """Make the state of a shard that was asked for and of which nothing else is known yet."""
    profile = spec.profile
    return ShardState(
        shard=spec.shard,
        replica=spec.replica,
        model=spec.model,
        ordinal=spec.ordinal,
        rank=spec.rank,
        generation=spec.generation,
        phase=Phase.PENDING,
        fingerprint=spec.fingerprint,
        profile=profile.name,
        engine=profile.engine,
        min_memory_gb=profile.min_memory_gb,
        claim=spec.claim,
        ranks=1 if spec.gang is None else len(spec.gang.addresses),
    )


def may_follow(before: Phase, after: Phase) -> bool:
    """Tell whether `after` may be reported when the last report was `before`."""
    return after in TRANSITIONS[before]
