"""Watches for nodes that come to fit a model which fitted nowhere when it was planned last."""

from collections.abc import Collection, Sequence

from llmgw.core.fleet.snapshot import Node
from llmgw.core.placement.candidates import Qualified, has_shrunk, may_qualify, qualified
from llmgw.core.placement.demand import Demand


class Candidates:
    """Owner of what fits nowhere, and of each node as it was when it was looked at last.

    What is compared is not one sign of life with the next but with the last look, so that memory which comes back
    slowly is noticed as well. Where nothing waits for room, nothing is looked at.
    """

    def __init__(self) -> None:
        self._asked: tuple[tuple[str, Demand], ...] = ()
        self._looked_at: dict[str, Node] = {}

    def fit_nowhere(self, asked: Sequence[tuple[str, Demand]]) -> None:
        """Take what models that were refused ask for, one pair for each of their profiles."""
        self._asked = tuple(asked)
        if not asked:
            self._looked_at.clear()

    def forget_all_but(self, nodes: Collection[str]) -> None:
        """Forget nodes that are no more."""
        for gone in self._looked_at.keys() - nodes:
            del self._looked_at[gone]

    def said(self, before: Node, after: Node) -> tuple[Qualified, ...]:
        """Take what a node said anew; returns the models that it could not take at the last look and can take now."""
        if not self._asked:
            return ()
        last = self._looked_at.setdefault(after.id, before)
        if not may_qualify(last, after):
            if has_shrunk(last, after):
                self._looked_at[after.id] = after
            return ()
        self._looked_at[after.id] = after
        return qualified(self._asked, last, after)
