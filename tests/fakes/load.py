"""Requests in flight, counted by whoever writes the test."""

from llmgw.core.ids import Generation


class FakeLoad:
    """Answers from `counts`, which has zero for whatever is not in it."""

    def __init__(self) -> None:
        self.counts: dict[tuple[str, Generation], int] = {}

    def count(self, replica: str, generation: Generation) -> int:
        return self.counts.get((replica, generation), 0)
