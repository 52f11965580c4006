import asyncio
import socket
from contextlib import ExitStack, closing

import uvloop

from llmgw.runtime.listening import A_TURN, many

CLIENTS = 64


async def _turns_until_all_are_taken() -> int:
    loop, taken, turns = asyncio.get_running_loop(), [], 0
    with closing(socket.create_server(("127.0.0.1", 0), backlog=CLIENTS)) as bound, ExitStack() as stack:
        bound.setblocking(False)
        servers = [await loop.create_server(lambda: _Taken(taken), sock=one) for one in many(bound)]
        for _ in range(CLIENTS):
            stack.enter_context(closing(socket.create_connection(bound.getsockname())))
        while len(taken) < CLIENTS:
            turns += 1
            await asyncio.sleep(0)
        for server in servers:
            server.close()
        for transport in taken:
            transport.abort()
        for server in servers:
            await server.wait_closed()
    return turns


class _Taken(asyncio.Protocol):
    def __init__(self, taken: list) -> None:
        self._taken = taken

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._taken.append(transport)


def test_many_connections_are_taken_in_one_turn_of_the_loop() -> None:
    turns = uvloop.run(_turns_until_all_are_taken())

    # One more turn or two pass before the kernel has told of all of them.
    assert turns <= CLIENTS // A_TURN + 8
