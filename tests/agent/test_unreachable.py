import socket
from errno import ECONNREFUSED, EHOSTUNREACH

import pytest
from websockets.exceptions import InvalidMessage

from llmgw.agent.unreachable import why_unreachable


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(ECONNREFUSED, "Connect call failed ('10.0.0.7', 8443)"), "Connection refused"),
        (OSError(EHOSTUNREACH, "Connect call failed ('10.0.0.7', 8443)"), "No route to host"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known"),
        (TimeoutError(), "no answer in time"),
        (OSError("Multiple exceptions: a, b"), "Multiple exceptions: a, b"),
        (InvalidMessage("did not receive a valid HTTP response"), "did not receive a valid HTTP response"),
        (UnicodeError(), "UnicodeError"),
    ],
)
def test_why_a_server_cannot_be_reached_is_told_in_words(error: Exception, said: str) -> None:
    assert why_unreachable(error) == said
