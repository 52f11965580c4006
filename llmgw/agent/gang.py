"""What one process is given of this node before its launch, and whether it can meet the other ranks of its replica."""

import errno
import socket
from collections.abc import Callable

import psutil

from llmgw.agent.discovery.fabrics import read_fabrics
from llmgw.agent.home import Home
from llmgw.agent.listeners import listeners
from llmgw.agent.patience import call_within
from llmgw.core.fleet.shards import Gang, ShardSpec
from llmgw.engines.post import Post

LOOK_LIMIT_S = 10.0


async def post_of(spec: ShardSpec, home: Home) -> Post | str:
    """Put together what a shard is given; returns what is wrong when it could never meet the others."""
    try:
        share = await call_within(LOOK_LIMIT_S, lambda: gpu_share(spec, home))
        if spec.gang is None:
            return Post(gpus=_gpus(spec), gpu_share=share)
        gang = spec.gang
        if problem := await call_within(LOOK_LIMIT_S, lambda: gang_problem(spec, gang, home)):
            return problem
        interface = await call_within(LOOK_LIMIT_S, lambda: interface_of(gang.addresses[spec.rank]))
    except TimeoutError:
        return f"node {home.node} did not tell within {LOOK_LIMIT_S:g} s what GPUs and networks it has"
    return Post(gpus=_gpus(spec), gpu_share=share, rank=spec.rank, gang=gang, interface=interface)


def gpu_share(spec: ShardSpec, home: Home) -> float | None:
    """Say how much of each of its GPUs a shard may take, 0 to 1; None when that is left to the engine."""
    claim = spec.claim
    if claim is None or claim.gpu_bytes is None or spec.profile.min_gpu_memory_gb is None:
        return None
    totals = [gpu.total_bytes for gpu in home.gpus().gpus if gpu.uuid in claim.gpus]
    known = [total for total in totals if total]
    return min(1.0, claim.gpu_bytes / max(known)) if known else None


def gang_problem(spec: ShardSpec, gang: Gang, home: Home) -> str | None:
    """Say why this rank cannot meet the others: an adapter that is gone, or a port that somebody holds."""
    if not spec.rank < len(gang.addresses) or len(gang.ports) not in (0, len(gang.addresses)):
        return (
            f"rank {spec.rank} of {spec.replica} was told of {len(gang.addresses)} nodes; update the server"
        )
    if gang.fabric is not None and spec.rank < len(gang.adapters):
        for adapter in filter(None, gang.adapters[spec.rank].split(",")):
            (fabric,) = read_fabrics({gang.fabric: adapter}, home.root)
            if not fabric.attached:
                return f"node {home.node} is not on fabric {gang.fabric}: adapter {adapter}: {fabric.problem}"
    port = gang.port if spec.rank == 0 else next(iter(gang.ports[spec.rank : spec.rank + 1]), None)
    if port is None:
        return None
    what = f"port {port}, where the ranks of {spec.replica} are to meet"
    return port_problem(gang.addresses[spec.rank], port, what, home.node)


def port_problem(
    address: str,
    port: int,
    what: str,
    node: str,
    listening: Callable[[int], frozenset[int | None]] = listeners,
) -> str | None:
    """Say that nobody can listen on a port, and who does; None when it is free.

    Args:
        what: names the port, in the words of the answer.
    """
    try:
        [(family, kind, protocol, _, place), *_] = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)
        with socket.socket(family, kind, protocol) as probe:
            # As servers do: what a connection of before left behind is no holder.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(place)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            return (
                f"{what}, cannot be used on {address}, the address of node {node}: {error.strerror or error}"
            )
        pids = ", ".join("unknown" if pid is None else str(pid) for pid in sorted(listening(port), key=str))
        held = f" by another process (pid {pids})" if pids else ""
        return f"{what}, is taken on node {node}{held}; the next try uses another"
    return None


def interface_of(address: str) -> str | None:
    """Find the network interface that has an address; None when none has."""
    for name, found in psutil.net_if_addrs().items():
        if any(one.address.partition("%")[0] == address for one in found):
            return name
    return None


def _gpus(spec: ShardSpec) -> tuple[str, ...]:
    return () if spec.claim is None else spec.claim.gpus
