"""Say in an operator's words why a server could not be reached."""

import os


def why_unreachable(error: Exception) -> str:
    """Give the system's own words for the fault; Python's carry numbers and tuples.

    An OSError of asyncio for several addresses at once has no number, and is told as it is.
    """
    if isinstance(error, TimeoutError) and not error.errno:
        return "no answer in time"
    if isinstance(error, OSError) and error.errno is not None:
        # Faults of looking a name up have numbers of their own, below 0.
        return os.strerror(error.errno) if error.errno > 0 else error.strerror or str(error)
    return str(error) or type(error).__name__
