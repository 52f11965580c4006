"""Bind the three addresses before anything is built, so that one that is taken is told at once."""

import errno
import os
import socket

import msgspec

from llmgw.core.errors import BadInput, Conflict, LlmgwError

BACKLOG = 2048


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """Where the server listens, as host:port with the ports that it really got."""

    client: str
    admin: str
    agents: str


def bind(host: str, port: int, key: str) -> socket.socket:
    """Bind one TCP address; port 0 lets the kernel choose.

    Args:
        key: the key of server.yaml that says this address, for the error.

    Raises:
        Conflict: the address is in use.
        BadInput: it is none of this machine, or may not be used.
    """
    try:
        # The first address of a name is enough: what listens on two would have two ports where 0 was asked for.
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind)
    except OSError as error:
        raise BadInput(
            f"{key}: {host}:{port} is no address: {error.strerror or error}; change {key}"
        ) from error
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        bound.listen(BACKLOG)
        bound.setblocking(False)
    except OSError as error:
        bound.close()
        raise refusal(error, host, port, key) from error
    return bound


def address_of(bound: socket.socket) -> str:
    """Say where a socket listens, as host:port with IPv6 in brackets."""
    host, port = bound.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def refusal(error: OSError, host: str, port: int, key: str) -> LlmgwError:
    """Say why an address could not be bound, and what to write instead."""
    said = f"{key}: cannot listen on {host}:{port}: {os.strerror(error.errno or 0)}"
    if error.errno == errno.EADDRINUSE:
        return Conflict(
            f"{said}; end what listens there (another llmgw server?), or write another address under {key} "
            "in server.yaml"
        )
    if error.errno == errno.EACCES:
        return BadInput(
            f"{said}; ports below 1024 are for root; write another address under {key} in server.yaml"
        )
    return BadInput(f"{said}; write an address of this machine under {key} in server.yaml")
