"""How many files and sockets this process may have open."""

import contextlib
import resource


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
