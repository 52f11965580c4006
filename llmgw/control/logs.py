"""Logs of nodes as the surfaces ask for them: the newest lines of a source, and a source that is followed."""

from collections.abc import AsyncIterator
from typing import Protocol

from llmgw.control.follow import Follows, Streams
from llmgw.control.pairing import Declined, Gone, NoAnswer, NoStream
from llmgw.core.fleet.logs import AGENT, DEFAULT_LINES, MOST_LINES, LogEvent, LogTail, is_source


class Reply(Protocol):
    """What a node answers."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The newest lines, oldest first."""

    @property
    def sources(self) -> tuple[str, ...]:
        """All that the node can show."""

    @property
    def error(self) -> str | None:
        """Why there is nothing to show."""

    @property
    def left_out(self) -> int:
        """Older lines that had no room."""


class Agents(Streams, Protocol):
    """The streams of agents, as this module uses them."""

    async def ask_for_logs(
        self, node_id: str, source: str, lines: int
    ) -> Reply | NoStream | NoAnswer | Gone | Declined:
        """Ask a node for the newest lines of a source."""


class Logs:
    """The one door to the logs of nodes. Nothing is kept here but what somebody follows."""

    def __init__(self, agents: Agents) -> None:
        self._agents = agents
        self.follows = Follows(agents)

    async def tail(self, node_id: str, source: str = AGENT, lines: int = DEFAULT_LINES) -> LogTail:
        """Ask a node for the newest lines of a source; at most 10 s pass.

        Returns:
            The lines, or an error that says why there are none; `sources` is never empty.
        """
        if not is_source(source):
            return LogTail(
                error=f"{source[:60]!r} is no source; wanted one such as {AGENT!r} or the id of a shard"
            )
        reply = await self._agents.ask_for_logs(node_id, source, max(1, min(lines, MOST_LINES)))
        if isinstance(reply, NoStream | NoAnswer | Gone | Declined):
            return LogTail(error=reply.reason)
        return LogTail(
            lines=reply.lines[-MOST_LINES:],
            sources=reply.sources or (AGENT,),
            error=reply.error,
            left_out=reply.left_out,
        )

    def follow(
        self, node_id: str, source: str = AGENT, lines: int = DEFAULT_LINES, cursor: str | None = None
    ) -> AsyncIterator[LogEvent]:
        """Follow a source until the viewer closes the iterator, an event says that it ended, or the server ends.

        Args:
            lines: how many of the newest come first.
            cursor: of the last event that the viewer saw; what came after it comes first, in place of `lines`.
        """
        return self.follows.follow(node_id, source, max(0, min(lines, MOST_LINES)), cursor)

    def close(self) -> None:
        """End every follow: the server is ending."""
        self.follows.close()
