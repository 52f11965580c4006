"""A listening socket that outlives its server, handed over as systemd does it.

The protocol: the socket is descriptor 3, LISTEN_FDS counts the sockets, LISTEN_FDNAMES names them, and LISTEN_PID is
the pid of the one they are meant for. That pid is known only in the new process, so a small program that becomes the
server sets it.
"""

import contextlib
import socket
import sys
from collections.abc import Iterator

from faults.stage import Stage

BACKLOG = 2048

HAND_OVER = """
import os, sys
held = int(sys.argv[1])
if held != 3:
    os.dup2(held, 3)
    os.close(held)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), LISTEN_FDNAMES="client")
os.execv(sys.argv[2], sys.argv[2:])
"""


@contextlib.contextmanager
def activated(stage: Stage) -> Iterator[str]:
    """Listen on the client port in the place of the server, and hand the socket to each server of the stage.

    Yields:
        The address, host:port.
    """
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(BACKLOG)
        descriptor = listener.fileno()
        stage.house.descriptors["server"] = (descriptor,)
        stage.house.before["server"] = (sys.executable, "-S", "-I", "-c", HAND_OVER, str(descriptor))
        yield f"127.0.0.1:{listener.getsockname()[1]}"
