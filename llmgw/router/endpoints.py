"""What the router keeps about each endpoint while tables come and go: its requests, its failures, its connections."""

from functools import partial

from llmgw.core.ids import Generation
from llmgw.core.routing.choose import choose
from llmgw.core.routing.health import HEALTHY, Health, Outcome, when_done, when_taken
from llmgw.core.routing.lookup import answering
from llmgw.core.routing.table import Endpoint, ModelRoute, RouteTable
from llmgw.router.upstream import Connector, Pool

_Key = tuple[str, Generation]


class EndpointState:
    """The counters of one generation of one replica.

    A replica that comes back is another generation and has another state, so that requests which the old one still
    holds cannot touch its counters. Written by the router's loop only.

    Attributes:
        outstanding: requests it has now.
        is_retired: no table lists it any more, so it takes no new request and finishes its own.
        host_header: what requests to it carry as `Host`.
        stamps: header lines that name it in answers.
    """

    __slots__ = (
        "capacity",
        "endpoint",
        "health",
        "host_header",
        "is_retired",
        "outstanding",
        "pool",
        "stamps",
    )

    def __init__(self, endpoint: Endpoint, pool: Pool) -> None:
        self.outstanding = 0
        self.health: Health = HEALTHY
        self.is_retired = False
        self.pool = pool
        self.describe(endpoint)

    def describe(self, endpoint: Endpoint) -> None:
        """Take what a new table says about the same generation."""
        self.endpoint = endpoint
        self.capacity = max(1, endpoint.capacity)
        self.host_header = _authority(endpoint).encode("ascii", "replace")
        lines = f"x-llmgw-replica: {endpoint.replica}\r\nx-llmgw-model: {endpoint.model}\r\n"
        self.stamps = lines.encode("ascii", "replace")

    def take(self) -> None:
        """Count a request in."""
        self.outstanding += 1
        self.health = when_taken(self.health)

    def done(self, outcome: Outcome, now: float) -> None:
        """Count a request out, with what it told about the endpoint."""
        self.outstanding -= 1
        self.health = when_done(self.health, outcome, now)


def _authority(endpoint: Endpoint) -> str:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    return f"{host}:{endpoint.port}"


class Endpoints:
    """The route table with the state of every endpoint in it."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._states: dict[_Key, EndpointState] = {}
        self._candidates: dict[tuple[str, str], tuple[EndpointState, ...]] = {}
        self._turn = 0
        self.table = RouteTable()

    def replace(self, table: RouteTable) -> None:
        """Route by this table from now on; requests under way keep what they started with."""
        old, self._states = self._states, {}
        for route in table.models():
            for endpoint in route.endpoints:
                key = (endpoint.replica, endpoint.generation)
                self._states[key] = self._carry_over(old.pop(key, None), endpoint)
        for state in old.values():
            _retire(state)
        self._candidates = {}
        self.table = table

    def _carry_over(self, state: EndpointState | None, endpoint: Endpoint) -> EndpointState:
        new_pool = partial(Pool, self._connector, endpoint.host, endpoint.port)
        if state is None:
            return EndpointState(endpoint, new_pool())
        if (state.pool.host, state.pool.port) != (endpoint.host, endpoint.port):
            state.pool.close()
            state.pool = new_pool()
        state.describe(endpoint)
        return state

    def candidates(self, route: ModelRoute, task: str) -> tuple[EndpointState, ...]:
        """List the states of a model's endpoints that answer `/v1/{task}`."""
        found = self._candidates.get((route.name, task))
        if found is None:
            found = tuple(self._states[e.replica, e.generation] for e in answering(route, task))
            self._candidates[route.name, task] = found
        return found

    def choose(self, candidates: tuple[EndpointState, ...], now: float) -> EndpointState | None:
        """Choose who takes the next request."""
        self._turn += 1
        return choose(candidates, turn=self._turn, now=now)

    def close(self) -> None:
        """Close every idle connection."""
        for state in self._states.values():
            state.pool.close()


def _retire(state: EndpointState) -> None:
    state.is_retired = True
    state.pool.close()
