"""A websocket whose sending waits until the test lets it go on."""

import asyncio


class HeldConnection:
    """Keeps what was sent; `transport` is itself, as far as cutting goes."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.closed: tuple[int, str] | None = None
        self.aborted = False
        self.goes_on = asyncio.Event()

    @property
    def transport(self) -> "HeldConnection":
        return self

    def abort(self) -> None:
        self.aborted = True

    async def send(self, data: bytes) -> None:
        await self.goes_on.wait()
        self.sent.append(data)

    async def close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
