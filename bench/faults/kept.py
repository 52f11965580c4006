"""One engine that runs through all that is done to its agent: what becomes of it is what counts."""

from typing import Any

from real.house import wait_for

from faults.stage import QUICK, Process, Stage

MODEL = "kept"
AGENT = "n1"


class Kept:
    """A model with one replica on one node, ready when this returns."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        stage.begin(AGENT, nodes=QUICK)
        stage.apply(stage.model(MODEL))
        self.row: dict[str, Any] = stage.wait_ready(MODEL)[0]
        self.engine = Process(self.row["pid"])

    def next_agent(self, number: int) -> str:
        """Kill the agent and start another, which must look after the same engine; returns what it said."""
        said = len(self.stage.house.log(AGENT))
        self.stage.kill_agent(AGENT)
        self.stage.start_agent(AGENT)
        self.check(number)
        return self.stage.house.log(AGENT)[said:]

    def check(self, number: int) -> None:
        """Count the engine as lost unless it lives and is told of as the one that is ready."""
        stage = self.stage
        stage.wait_nodes(AGENT)
        try:
            told = stage.wait_ready(MODEL, seconds=20)
        except AssertionError:
            told = stage.replicas(MODEL)
        if [one["pid"] for one in told] != [self.engine.pid] or not self.engine.lives:
            found = [(one["pid"], one["phase"], one["reason"]) for one in told]
            alive = f"engine {self.engine.pid} (alive: {self.engine.lives})"
            stage.tally.lost(f"round {number}: {alive}; replicas now {found}")

    def check_alone(self, number: int) -> None:
        """Count another engine beside it, and its end."""
        if not self.engine.lives:
            self.stage.tally.lost(f"round {number}: engine {self.engine.pid} was ended")
        if extra := self.stage.engines() - {self.engine.pid}:
            self.stage.tally.doubled(f"round {number}: engines {sorted(extra)} beside {self.engine.pid}")

    def wait_replaced(self) -> None:
        """Wait for another engine in its place, and take that for the one that counts."""

        def replaced() -> Any:
            rows = self.stage.replicas(MODEL)
            new = len(rows) == 1 and rows[0]["phase"] == "ready" and rows[0]["pid"] != self.engine.pid
            return new and rows

        [self.row] = wait_for("another engine serves", replaced, 60)
        self.engine = Process(self.row["pid"])
