"""Take the client port from systemd: a socket that outlives the server, so that a restart loses no connection.

The protocol (sd_listen_fds(3)): descriptors begin at 3, LISTEN_FDS counts them, LISTEN_FDNAMES names them, and
LISTEN_PID is the pid of the process they are meant for; a child that inherits the variables must not take them.
"""

import os
import socket
from collections.abc import MutableMapping

from llmgw.core.errors import BadInput

FIRST_DESCRIPTOR = 3
CLIENT = "client"
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
_UNNAMED = ("", "unknown", "llmgw-server.socket")


def inherited_client_socket(environ: MutableMapping[str, str], pid: int) -> socket.socket | None:
    """Take the socket of the client port that was handed over; None when none was meant for this process.

    The variables are removed from `environ`, so that no child takes them for its own.

    Args:
        pid: of this process.

    Raises:
        BadInput: something else was handed over; the message says what to write in the socket unit.
    """
    said = {name: environ.pop(name, "") for name in _VARIABLES}
    if said["LISTEN_PID"] != str(pid):
        return None
    count = int(said["LISTEN_FDS"]) if said["LISTEN_FDS"].isdecimal() else 0
    names = said["LISTEN_FDNAMES"].split(":") if said["LISTEN_FDNAMES"] else []
    if count == 0:
        return None
    if count > 1:
        raise BadInput(
            f"systemd handed over {count} sockets ({', '.join(names) or 'unnamed'}), and only the client port's is "
            "taken; leave one ListenStream= in the socket unit"
        )
    name = names[0] if names else ""
    if name != CLIENT and name not in _UNNAMED:
        raise BadInput(
            f"systemd handed over a socket called {name!r}; write FileDescriptorName={CLIENT} in the socket unit"
        )
    return _taken(FIRST_DESCRIPTOR)


def _taken(descriptor: int) -> socket.socket:
    os.set_inheritable(descriptor, False)
    try:
        taken = socket.socket(fileno=descriptor)
    except OSError as error:
        raise BadInput(f"the descriptor that systemd handed over is no socket: {error.strerror}") from error
    listens = taken.type == socket.SOCK_STREAM and taken.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    if taken.family not in (socket.AF_INET, socket.AF_INET6) or not listens:
        taken.close()
        raise BadInput(
            "the socket that systemd handed over does not listen for TCP; write ListenStream=HOST:PORT and Accept=no "
            "in the socket unit"
        )
    taken.setblocking(False)
    return taken
