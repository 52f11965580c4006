"""How many files and sockets this process may have open, and a watch on having none left.

An event loop that can take no connection for want of a descriptor says nothing of it, whichever port that is on, and a
client only sees that nobody answers. All ports draw on the same descriptors, so one watch stands for all.
"""

import asyncio
import contextlib
import errno
import logging
import os
import resource
from collections.abc import Callable

from llmgw.runtime.clock import Clock

log = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
SAY_EVERY_S = 60.0
_SPENT = frozenset({errno.EMFILE, errno.ENFILE})


def raise_limit() -> int:
    """Raise the soft limit of open descriptors to the hard one; every client and engine connection takes one.

    Returns:
        The limit that now holds.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        # Where the hard limit cannot be had after all, the soft one has to do.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


def spent() -> str | None:
    """Say why no descriptor is to be had now; None when one is."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        if error.errno in _SPENT:
            return error.strerror or str(error)
    return None


class DescriptorWatch:
    """Looks again and again whether this process can still open something, and logs when it cannot."""

    def __init__(self, clock: Clock, *, look: Callable[[], str | None] = spent) -> None:
        self._clock = clock
        self._look = look
        self._said_now = -SAY_EVERY_S
        self._is_told = False

    async def run(self) -> None:
        """Look for ever; only cancelling ends it."""
        while True:
            self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    def look(self) -> None:
        """Look once; what lasts is said once a minute."""
        why, now = self._look(), self._clock.now()
        if why is not None and now - self._said_now >= SAY_EVERY_S:
            self._said_now, self._is_told = now, True
            log.error(
                "no connection can be taken or made, neither of clients nor of agents: %s, at most %d may be open; "
                "raise LimitNOFILE of the unit (ulimit -n), or find out who holds so many",
                why,
                resource.getrlimit(resource.RLIMIT_NOFILE)[0],
            )
        elif why is None and self._is_told:
            self._is_told = False
            log.warning("connections can be taken and made again")
