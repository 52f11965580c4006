"""The way to the server: its address, and the address that this node has on that way."""

import errno
import ipaddress
import socket

import msgspec

_PORT_TRIES = 200


class Server(msgspec.Struct, frozen=True):
    """One address of the server."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def url(self) -> str:
        """The address as a websocket client takes it."""
        return f"ws://{self}/"

    @property
    def is_loopback(self) -> bool:
        """Tell whether what is said to it stays on this machine."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.partition("%")[0]).is_loopback
        except ValueError:
            return False


def source_address(server: Server) -> str:
    """Ask the kernel which address it would send from; nothing is sent. May block on a name.

    Raises:
        OSError: there is no route, or the name cannot be resolved.
    """
    [(family, _, _, _, address), *_] = socket.getaddrinfo(server.host, server.port, type=socket.SOCK_DGRAM)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])


def free_port(host: str, taken: set[int]) -> int:
    """Find a port on `host` that nobody listens on and that is not in `taken`. May block on a name.

    Raises:
        OSError: `host` is no address of this machine, or there is no free port.
    """
    [(family, kind, protocol, _, address), *_] = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    for _ in range(_PORT_TRIES):
        with socket.socket(family, kind, protocol) as probe:
            probe.bind(address)
            port = int(probe.getsockname()[1])
        if port not in taken:
            return port
    raise OSError(errno.EADDRINUSE, f"no free port in {_PORT_TRIES} tries")
