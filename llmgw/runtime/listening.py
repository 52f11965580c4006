"""Several descriptors of one listening socket: uvloop takes one connection from each in a turn of its loop.

From a single one, connections are taken no faster than the loop turns, which is slowly just when it has much to do: a
fleet that dials a server that is back would wait for minutes. All descriptors share one queue of the kernel's.
"""

import socket

A_TURN = 16
"""How many connections are taken in one turn of a loop."""


def many(bound: socket.socket) -> list[socket.socket]:
    """Give the socket itself and its copies; whoever listens on them closes them."""
    return [bound, *(bound.dup() for _ in range(A_TURN - 1))]
