"""Addresses on the way to the server."""

import socket

import pytest

from llmgw.agent.discovery.route import Server, free_port, source_address


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("a.b", False),
    ],
)
def test_what_stays_on_this_machine_is_told_by_the_address(host: str, loopback: bool) -> None:
    assert Server(host, 1).is_loopback is loopback


def test_an_ipv6_address_is_shown_in_brackets() -> None:
    assert Server("::1", 8443).url == "ws://[::1]:8443/"


def test_the_route_to_loopback_begins_at_loopback() -> None:
    assert source_address(Server("127.0.0.1", 9)) == "127.0.0.1"


def test_a_free_port_is_one_that_nobody_has_been_given() -> None:
    taken: set[int] = set()
    for _ in range(20):
        taken.add(free_port("127.0.0.1", taken))

    assert len(taken) == 20
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", taken.pop()))


def test_when_every_port_is_taken_there_is_none() -> None:
    every = set(range(65536))

    with pytest.raises(OSError, match="no free port"):
        free_port("127.0.0.1", every)


def test_an_address_of_another_machine_has_no_ports() -> None:
    with pytest.raises(OSError, match="assign"):
        free_port("192.0.2.1", set())
