"""Addresses as configuration writes them: host:port, with IPv6 in brackets."""

import ipaddress
import re

from llmgw.core.errors import Problem

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252})\Z")


def split_address(text: str) -> tuple[str, int]:
    """Split a checked `host:port`; brackets around IPv6 are taken off."""
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


def address_problem(text: str, *, any_port: bool) -> str | None:
    """Say what is wrong with `text` as host:port, or None.

    Args:
        any_port: port 0 is fine, for the kernel chooses one.
    """
    if "://" in text:
        return f"wanted host:port without a scheme, found {text!r}"
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or len(port) > 5:
        return f"wanted host:port such as 127.0.0.1:8080, found {text!r}"
    if not (0 if any_port else 1) <= int(port) <= 65535:
        return f"wanted a port from {0 if any_port else 1} to 65535, found {int(port)}"
    if not host:
        return f"wanted host:port, found {text!r}; 0.0.0.0:{port} is every address of this machine"
    return host_problem(host, bracketed=True)


def host_problem(host: str, *, bracketed: bool) -> str | None:
    """Say what is wrong with `host` as a name or an IP address, or None.

    Args:
        bracketed: an IPv6 address must stand in brackets, since a port follows.
    """
    inner = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    try:
        version = ipaddress.ip_address(inner.partition("%")[0]).version
    except ValueError:
        return None if _HOST.match(host) else f"wanted a host name or an IP address, found {host!r}"
    if version == 4:
        return None if inner == host else f"{host!r} needs no brackets; only IPv6 addresses do"
    if bracketed and inner == host:
        return f"an IPv6 address stands in brackets: [{host}]"
    return None


def is_loopback(address: str) -> bool:
    """Tell whether only this machine can reach a checked `host:port`."""
    host, _ = split_address(address)
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_problems(addresses: dict[tuple[str | int, ...], str], *, any_port: bool) -> list[Problem]:
    """Check several addresses, each under its place in the file."""
    return [
        Problem(path, wrong)
        for path, text in addresses.items()
        if (wrong := address_problem(text, any_port=any_port))
    ]
