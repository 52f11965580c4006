"""What a fault cost, told as it is found: lost, doubled, left behind, or wrong in another way."""

from typing import Any


class Missing(Exception):
    """Something the fault needs is not on this machine; the message says what."""


class Tally:
    """The account of one fault. All four counts are 0 when the promise holds."""

    def __init__(self, fault: str, *, rounds: int, short: bool) -> None:
        self.fault = fault
        self.rounds = rounds
        self.short = short
        self.found: dict[str, list[str]] = {"lost": [], "doubled": [], "left behind": [], "wrong": []}
        self.measured: dict[str, list[float]] = {}

    def lost(self, what: str) -> None:
        """Count a token, a request or an engine that was lost."""
        self._count("lost", what)

    def doubled(self, what: str) -> None:
        """Count an engine that was started a second time, or runs twice."""
        self._count("doubled", what)

    def left(self, what: str) -> None:
        """Count a process that nobody looks after any more."""
        self._count("left behind", what)

    def wrong(self, what: str) -> None:
        """Count anything else that is not as it must be."""
        self._count("wrong", what)

    def expect(self, holds: object, what: str) -> None:
        """Count `what` as wrong unless it holds."""
        if not holds:
            self.wrong(what)

    def measure(self, name: str, value: float) -> None:
        """Note a figure of this round."""
        self.measured.setdefault(name, []).append(value)

    def say(self, text: str) -> None:
        """Tell how it goes on."""
        print(f"{self.fault}: {text}", flush=True)

    @property
    def problems(self) -> list[str]:
        """All that was found, each with its kind."""
        return [f"{kind}: {what}" for kind, of_kind in self.found.items() for what in of_kind]

    def figures(self) -> dict[str, Any]:
        """Give the counts, and of each figure the median and the worst."""
        figures: dict[str, Any] = {"rounds": self.rounds}
        figures |= {kind.replace(" ", "_"): len(of_kind) for kind, of_kind in self.found.items()}
        for name, values in self.measured.items():
            ordered = sorted(values)
            figures[name] = {
                "median": round(ordered[len(ordered) // 2], 2),
                "worst": round(ordered[-1], 2),
            }
        return figures

    def _count(self, kind: str, what: str) -> None:
        self.found[kind].append(what)
        self.say(f"{kind.upper()}: {what}")
