"""A place that bytes are written to."""


class ByteSink:
    """Keeps what was written and counts the writes."""

    def __init__(self) -> None:
        self.data = b""
        self.writes = 0

    def write(self, data: bytes) -> None:
        self.data += data
        self.writes += 1
