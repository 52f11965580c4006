"""What all shards of one agent share, and how long things may take."""

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from llmgw.agent.discovery.gpus.sighting import Sighting
from llmgw.agent.records import Records
from llmgw.agent.state_dir import StateDir
from llmgw.agent.weights import Weights
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.shards import ShardState
from llmgw.core.units import GIB
from llmgw.engines.engine import Engine
from llmgw.runtime.clock import Clock


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """How long things may take, in seconds.

    Attributes:
        poll_starting_s: between two looks at an engine that is starting.
        poll_ready_s: between two looks at one that is ready.
        answer_s: for one answer.
        start_s: from `starting` to `ready`, for any engine.
        start_per_gib_s: beside that, for each GiB of weights.
        silent_after_s: a ready engine that has not answered for so long says so.
        hung_after_s: after this long it is failed.
        settled_s: a process that answers no HTTP counts as ready when it has run for so long.
        healthy_s: after being ready for so long its earlier crashes are over.
        room_s: how long a launch waits for memory to be given back.
        poll_room_s: between two looks at the memory meanwhile.
        trim_s: between two trims of the engines' output.
        silent_fetch_s: a download that no byte came of for so long has failed.
        retry_fetch_s: between a break of a download and the next try; later waits double.
        progress_s: between two words on how far a download is.
    """

    poll_starting_s: float = 0.25
    poll_ready_s: float = 1.0
    answer_s: float = 5.0
    start_s: float = 300.0
    start_per_gib_s: float = 20.0
    silent_after_s: float = 10.0
    hung_after_s: float = 300.0
    settled_s: float = 2.0
    healthy_s: float = 600.0
    room_s: float = 30.0
    poll_room_s: float = 0.5
    trim_s: float = 5.0
    silent_fetch_s: float = 300.0
    retry_fetch_s: float = 1.0
    progress_s: float = 1.0

    def starting_limit_s(self, weights_bytes: int) -> float:
        """Say how long an engine with so much to load may take to become ready."""
        return self.start_s + self.start_per_gib_s * weights_bytes / GIB


class Home(msgspec.Struct, frozen=True, kw_only=True):
    """What all shards of one agent share.

    Attributes:
        installs: gives the engines of this node as last seen.
        address: gives the address engines listen on.
        report: takes every transition.
        weights: finds and fetches weights; None knows those alone that are named by a path.
        ports: ports that shards have been given, each removed by the shard that added it.
        gpus: looks at the GPUs now; blocks, for ever where their driver hangs.
        root: where /proc and /sys are.
    """

    node: str
    state_dir: StateDir
    records: Records
    engines: Mapping[str, Engine]
    installs: Callable[[], tuple[EngineInstall, ...]]
    address: Callable[[], str]
    report: Callable[[ShardState], None]
    clock: Clock
    timings: Timings = Timings()
    weights: Weights | None = None
    ports: set[int] = set()
    gpus: Callable[[], Sighting] = Sighting
    root: Path = Path("/")
