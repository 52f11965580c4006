import errno
import socket
from contextlib import closing

import pytest

from llmgw.core.errors import BadInput, Conflict, LlmgwError
from llmgw.server.listeners import address_of, bind, refusal


def test_port_zero_gives_a_port_that_can_be_named() -> None:
    with closing(bind("127.0.0.1", 0, "listen.client")) as bound:
        host, _, port = address_of(bound).rpartition(":")

    assert host == "127.0.0.1"
    assert int(port) > 0


def test_a_name_is_resolved() -> None:
    with closing(bind("localhost", 0, "listen.client")) as bound:
        assert address_of(bound).startswith(("127.", "[::1]:"))


def test_an_address_of_ipv6_stands_in_brackets() -> None:
    class _Six:
        def getsockname(self) -> tuple[str, int, int, int]:
            return ("::1", 8080, 0, 0)

    assert address_of(_Six()) == "[::1]:8080"


def test_a_port_that_was_just_in_use_can_be_bound_again() -> None:
    with closing(bind("127.0.0.1", 0, "listen.client")) as bound:
        port = bound.getsockname()[1]
        with closing(socket.create_connection(("127.0.0.1", port))):
            accepted, _ = bound.accept()
            accepted.close()

    bind("127.0.0.1", port, "listen.client").close()


@pytest.mark.parametrize(
    ("number", "kind", "remedy"),
    [
        (errno.EADDRINUSE, Conflict, "end what listens there (another llmgw server?)"),
        (errno.EACCES, BadInput, "ports below 1024 are for root"),
        (errno.EADDRNOTAVAIL, BadInput, "write an address of this machine under listen.admin"),
    ],
)
def test_each_reason_has_its_remedy_and_names_address_and_key(
    number: int, kind: type[LlmgwError], remedy: str
) -> None:
    said = refusal(OSError(number, "x"), "10.0.0.7", 80, "listen.admin")

    assert type(said) is kind
    assert str(said).startswith("listen.admin: cannot listen on 10.0.0.7:80: ")
    assert remedy in str(said)
