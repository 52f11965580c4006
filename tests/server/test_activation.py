"""Sockets from systemd: what is taken, and what is refused with words for the socket unit."""

import os
import socket
from collections.abc import Iterator

import pytest

from llmgw.core.errors import BadInput
from llmgw.server.activation import FIRST_DESCRIPTOR, inherited_client_socket


@pytest.fixture
def third() -> Iterator[None]:
    """Keep whatever this process has at descriptor 3 out of harm's way."""
    kept = None
    try:
        kept = os.dup(FIRST_DESCRIPTOR)
    except OSError:
        # Nothing is there: something has to be, so that closing it later closes nothing of ours.
        os.dup2(os.open(os.devnull, os.O_RDONLY), FIRST_DESCRIPTOR)
    yield
    if kept is not None:
        os.dup2(kept, FIRST_DESCRIPTOR)
        os.close(kept)


def handed(**changes: str) -> dict[str, str]:
    return {"LISTEN_PID": "42", "LISTEN_FDS": "1", "LISTEN_FDNAMES": "client", "HOME": "/"} | changes


def test_a_listening_socket_is_taken_and_the_variables_are_gone(third: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        os.dup2(listener.fileno(), FIRST_DESCRIPTOR)
        address = listener.getsockname()
    environ = handed()

    taken = inherited_client_socket(environ, 42)

    assert taken is not None
    with taken:
        assert taken.getsockname() == address
        assert not taken.getblocking()
        assert not os.get_inheritable(FIRST_DESCRIPTOR)
    assert environ == {"HOME": "/"}


@pytest.mark.parametrize(
    "environ", [{}, handed(LISTEN_PID="41"), handed(LISTEN_FDS="0"), handed(LISTEN_FDS="x")]
)
def test_what_is_not_meant_for_this_process_is_not_taken(environ: dict[str, str]) -> None:
    assert inherited_client_socket(environ, 42) is None


def test_a_second_socket_is_refused_with_what_to_write() -> None:
    with pytest.raises(BadInput, match="leave one ListenStream="):
        inherited_client_socket(handed(LISTEN_FDS="2", LISTEN_FDNAMES="client:admin"), 42)


def test_a_socket_of_another_name_is_refused_with_what_to_write() -> None:
    with pytest.raises(BadInput, match="FileDescriptorName=client"):
        inherited_client_socket(handed(LISTEN_FDNAMES="admin"), 42)


def test_a_socket_that_does_not_listen_is_refused_with_what_to_write(third: None) -> None:
    with socket.socket() as connected:
        os.dup2(connected.fileno(), FIRST_DESCRIPTOR)

    with pytest.raises(BadInput, match="ListenStream=HOST:PORT"):
        inherited_client_socket(handed(), 42)


def test_a_descriptor_that_is_no_socket_is_refused(third: None) -> None:
    with open(os.devnull, "rb") as file:
        os.dup2(file.fileno(), FIRST_DESCRIPTOR)

    with pytest.raises(BadInput, match="is no socket"):
        inherited_client_socket(handed(), 42)
