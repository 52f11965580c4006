"""Who listens on a port: an answer there counts for an engine only when no stranger gives it."""

import psutil

from llmgw.agent.processes import Identity, Mark, carrying, session_of


def listeners(port: int) -> frozenset[int | None]:
    """Find the processes that listen on a TCP port of any address; None is one that this user may not see."""
    try:
        connections = psutil.net_connections("tcp")
    except (OSError, psutil.Error, RuntimeError):
        # What the kernel does not tell, or tells in another form, is nobody's fault here.
        return frozenset()
    return frozenset(
        found.pid
        for found in connections
        if found.status == psutil.CONN_LISTEN and found.laddr and found.laddr.port == port
    )


def is_strangers(port: int, leader: Identity, mark: Mark) -> bool:
    """Tell whether others than an engine's processes listen on a port, and they alone; False when in doubt."""
    pids = listeners(port)
    if not pids or None in pids:
        return False
    if pids & {stat.pid for stat in session_of(leader)}:
        return False
    return not pids & {stat.pid for stat in carrying(mark)}
