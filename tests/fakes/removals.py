"""Agents that are told what to look for and asked to remove weights; each answers what a test put into `replies`."""

from llmgw.control.pairing import Declined, Gone, NoAnswer, NoStream
from llmgw.wire.frames import WeightsRemoved


class FakeRemovals:
    def __init__(self) -> None:
        self.looked_for: list[tuple[str, ...]] = []
        self.asked: dict[str, tuple[str, ...]] = {}
        self.replies: dict[str, WeightsRemoved | NoStream | NoAnswer | Gone | Declined] = {}

    def look_for(self, sources: tuple[str, ...]) -> None:
        self.looked_for.append(sources)

    async def ask_to_remove(
        self, node_id: str, names: tuple[str, ...]
    ) -> WeightsRemoved | NoStream | NoAnswer | Gone | Declined:
        self.asked[node_id] = names
        return self.replies.get(node_id, WeightsRemoved(request_id=1, removed=names, freed_bytes=1024))
