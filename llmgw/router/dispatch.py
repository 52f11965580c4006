"""The life of one request, from its last byte to the last byte of its answer.

```
arriving --> refused
   |
   +-------> connecting --> waiting --> answering --> ended
                 ^            |            |
                 +--- retry --+            +--> broken off
```

Guarantees:
1. Everything up to the moment when the request is sent happens at once, in the callback that brought its last byte.
2. Each request takes one place at an endpoint at a time and gives it back exactly once, whatever happens.
3. When the client leaves, the engine's connection is closed in the same moment.
4. Nothing is shown to the client before the first bytes of the answer's body, and until then another try is possible:
   a) a reused connection that dies without a byte gets one more try on a fresh connection to the same endpoint;
   b) an endpoint that cannot be connected to never saw the request, so the next one gets it, and the next;
   c) an endpoint that dies with the request gives way to one other and no more, for a request that kills engines
      must not go through all of them.
5. After the first bytes there is no other try: a stream gets an error event and no `[DONE]`, anything else is cut.
6. When the server ends before an answer does, its client is told in the same way, or by a 503 before the first bytes.
"""

import asyncio
import logging
import os
from functools import partial
from typing import Protocol

import msgspec

from llmgw.core.accounts.access import KeyRecord, may_use_model
from llmgw.core.ids import Generation
from llmgw.core.routing.health import Outcome, judge
from llmgw.core.routing.lookup import find_answerer, find_model
from llmgw.core.routing.openai import Asked, Refused, read_request
from llmgw.router.arrival import Arrival
from llmgw.router.authenticate import Authenticator
from llmgw.router.endpoints import Endpoints, EndpointState
from llmgw.router.errors import internal_error, refusal_answer, shutting_down
from llmgw.router.proxy import Relay, RequestHead, ResponseHead, request_head
from llmgw.router.upstream import Back, Opening
from llmgw.runtime.clock import Clock

RETRY_AFTER_S = 1.0
"""When to ask again after an engine died: the router leaves it out by then."""
DONE_GRACE_S = 1.0
"""How long an engine may keep its answer open after `data: [DONE]`; then the answer is ended for it."""
_MOST_DEATHS = 2

_log = logging.getLogger(__name__)


class Client(Protocol):
    """The connection a request came on, as far as its answer goes."""

    transport: asyncio.Transport
    loop: asyncio.AbstractEventLoop

    def is_slow(self) -> bool:
        """Tell whether it takes its bytes more slowly than they were written."""

    def answered(self, *, keep_alive: bool, linger: bool) -> None:
        """Learn that the answer was written to its end.

        Args:
            keep_alive: the connection serves another request; else it closes.
            linger: the client may still be sending, so what comes is thrown away for a while before closing.
        """


class InFlight(msgspec.Struct, frozen=True, kw_only=True):
    """A request under way, as operators see it.

    Attributes:
        asked: the model as the client named it.
        model: the model that answers; None before an endpoint was found.
        generation: of the replica that has it.
        key: the first characters of its key.
        phase: "connecting", "waiting" or "answering".
        age_s: seconds since its last byte came.
    """

    request_id: str
    task: str
    asked: str
    stream: bool
    model: str | None
    replica: str | None
    generation: Generation | None
    key: str
    phase: str
    age_s: float


class Dispatcher:
    """What all requests share."""

    def __init__(
        self, clock: Clock, endpoints: Endpoints, authenticator: Authenticator, max_body_bytes: int
    ) -> None:
        self.clock = clock
        self.endpoints = endpoints
        self.authenticator = authenticator
        self.max_body_bytes = max_body_bytes
        self.in_flight: set[Exchange] = set()
        # Ids are unique across restarts by the first part and within one by the second; drawing random bits for each
        # request would cost more than reading its body.
        self._id_prefix = b"req-" + os.urandom(6).hex().encode()
        self._ids = 0

    def new_request_id(self) -> bytes:
        """Make up the id of a request whose client gave none."""
        self._ids += 1
        return b"%b-%x" % (self._id_prefix, self._ids)

    def close(self) -> None:
        """End every request under way, and tell its client."""
        for exchange in tuple(self.in_flight):
            exchange.end_unfinished()


class Exchange:
    """One request and its answer.

    It stands in the place of uvicorn's own cycle on its connection, which is why `response_complete` and `keep_alive`
    are called so: they are what the server asks of one.
    """

    __slots__ = (
        "_again",
        "_asked",
        "_back",
        "_began_at",
        "_begun",
        "_candidates",
        "_client",
        "_deaths",
        "_dispatcher",
        "_grace",
        "_opening",
        "_relay",
        "_request_id",
        "_state",
        "_target",
        "_task",
        "_tried",
        "arrival",
        "http_1_0",
        "keep_alive",
        "response_complete",
    )

    def __init__(
        self,
        dispatcher: Dispatcher,
        client: Client,
        task: str,
        target: bytes,
        head: RequestHead,
        length: bytes | None,
        *,
        http_1_0: bool,
        keep_alive: bool,
    ) -> None:
        """Begin with the request's head.

        Args:
            task: what it asks for under /v1.
            target: path and query, as the client wrote them.
            length: value of `Content-Length`, or None.
        """
        self._dispatcher = dispatcher
        self._client = client
        self._task = task
        self._target = target
        self.http_1_0 = http_1_0
        self.keep_alive = keep_alive
        self.response_complete = False
        self._request_id = head.request_id or dispatcher.new_request_id()
        self.arrival = Arrival(head, length, dispatcher.authenticator, dispatcher.max_body_bytes)
        self._begun = False
        self._asked: Asked | None = None
        self._candidates: tuple[EndpointState, ...] = ()
        self._tried: list[EndpointState] = []
        self._state: EndpointState | None = None
        self._opening: Opening | None = None
        self._back: Back | None = None
        self._relay: Relay | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._again = False
        self._deaths = 0

    # What the client's connection tells.

    def begin(self) -> None:
        """Learn that all earlier requests on the connection are answered, so that this one may be."""
        self._begun = True
        arrival = self.arrival
        if arrival.is_complete:
            self._dispatch()
        elif arrival.refusal is None and arrival.head.expects_continue:
            self._client.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def body_complete(self) -> None:
        """Learn that the request is whole."""
        self.arrival.is_complete = True
        if self._begun and not self.response_complete:
            self._dispatch()

    def refuse_early(self) -> None:
        """Answer a request that is refused already though its body is still coming; the connection closes behind it."""
        refusal = self.arrival.refusal
        if refusal is not None and self._begun and not self.response_complete:
            self.keep_alive = False
            self._refuse(refusal, linger=True)

    def client_left(self) -> None:
        """Learn that the client is gone: whatever is under way for it ends now."""
        self._stop(Outcome.NEUTRAL)

    def pause(self) -> None:
        """Read nothing from the engine: the client is slower."""
        if self._back is not None:
            self._back.pause()

    def resume(self) -> None:
        """Read from the engine again."""
        if self._back is not None:
            self._back.resume()

    def end_unfinished(self) -> None:
        """Tell the client that the server ends before the answer did."""
        if self.response_complete:
            return
        self.keep_alive = False
        refused, relay = shutting_down(self._request_id.decode()), self._relay
        if relay is None:
            self._refuse(refused, linger=not self.arrival.is_complete)
        elif relay.is_done:
            self._end_after_done()
        else:
            self._end_broken(relay, refused, Outcome.NEUTRAL)

    # The decision.

    def _dispatch(self) -> None:
        try:
            refused = self.arrival.refusal or self._route()
        except Exception:  # noqa: BLE001 - the border of one request: it is answered and the others go on
            self._broke()
        else:
            if refused is not None:
                self._refuse(refused)

    def _route(self) -> Refused | None:
        key = self.arrival.key
        assert key is not None
        asked = read_request(self.arrival.body)
        if isinstance(asked, Refused):
            return asked
        self._asked = asked
        candidates = self._find_candidates(asked.model, key)
        if isinstance(candidates, Refused):
            return candidates
        self._began_at = self._dispatcher.clock.now()
        self._candidates = candidates
        self._dispatcher.in_flight.add(self)
        self._send_to(candidates, self._began_at)
        return None

    def _find_candidates(self, name: str, key: KeyRecord) -> tuple[EndpointState, ...] | Refused:
        endpoints = self._dispatcher.endpoints
        route = endpoints.table.by_name.get(name)
        if route is not None and may_use_model(key, route.name):
            candidates = endpoints.candidates(route, self._task)
            if candidates:
                return candidates
        # The long way finds out what stands in for the model, or why nothing does.
        may_use = partial(may_use_model, key)
        found = find_model(endpoints.table, name, may_use)
        if not isinstance(found, Refused):
            found = find_answerer(endpoints.table, found, self._task, may_use)
        return found if isinstance(found, Refused) else endpoints.candidates(found, self._task)

    def _send_to(self, candidates: tuple[EndpointState, ...], now: float) -> bool:
        state = self._dispatcher.endpoints.choose(candidates, now)
        if state is None:
            return False
        state.take()
        self._state = state
        self._tried.append(state)
        self._again = False
        back = state.pool.take(now)
        if back is None:
            self._open(state)
        else:
            self._opened(back)
        return True

    def _open(self, state: EndpointState) -> None:
        self._opening = state.pool.open(self._opened, self._open_failed)

    def _opened(self, back: Back) -> None:
        state = self._state
        assert state is not None
        self._opening = None
        self._back = back
        body = self.arrival.body
        head = request_head(
            self._target, state.host_header, self.arrival.head.passing, self._request_id, len(body)
        )
        back.send(self, head, body)
        if self._client.is_slow():
            self.pause()

    # What the engine's connection tells.

    def upstream_read(self, head: ResponseHead, parts: list[bytes], ended: bool) -> None:
        """Pass on what one read brought."""
        try:
            self._pass_on(head, parts, ended)
        except Exception:  # noqa: BLE001 - the border of one request: it is answered and the others go on
            self._broke()

    def _pass_on(self, head: ResponseHead, parts: list[bytes], ended: bool) -> None:
        if ended:
            self._back = None
        elif not parts:
            return
        relay = self._relay
        if relay is None:
            relay = self._relay = Relay(
                self._client.transport,
                head,
                self._stamps(),
                http_1_0=self.http_1_0,
                keep_alive=self.keep_alive,
            )
            # There is no other try from here on, so a body of many megabytes need not stay as long as the answer takes.
            self.arrival.body = b""
        if ended and head.until_close and head.fields.is_stream and not relay.is_done:
            relay.pass_on(parts, ended=False)
            if not relay.is_done:
                self._break_off(relay, "it closed the connection")
                return
            parts = []
        relay.pass_on(parts, ended)
        if ended:
            self._end(judge(head.status), keep_alive=self.keep_alive and relay.can_follow)
        elif relay.is_done and self._grace is None:
            self._grace = self._client.loop.call_later(DONE_GRACE_S, self._end_after_done)

    def _end_after_done(self) -> None:
        relay = self._relay
        if relay is not None and not self.response_complete:
            relay.pass_on([], ended=True)
            self._end(Outcome.ANSWERED, keep_alive=self.keep_alive and relay.can_follow)

    def _open_failed(self, why: str) -> None:
        self._opening = None
        self._give_way(f"cannot be connected to: {why}")

    def upstream_lost(self, why: str, *, reused: bool) -> None:
        """Try once more where that cannot be seen, or tell the client."""
        self._back = None
        state, relay = self._state, self._relay
        assert state is not None
        if relay is not None and relay.is_done:
            self._end_after_done()
        elif relay is not None:
            self._break_off(relay, why)
        elif reused and not self._again:
            self._again = True
            self._open(state)
        else:
            self._deaths += 1
            self._give_way(f"did not answer: {why}")

    def _give_way(self, why: str) -> None:
        state = self._state
        assert state is not None
        self._release(Outcome.FAILED)
        _log.warning("request %s: replica %s %s", self._request_id.decode(), state.endpoint.replica, why)
        others = tuple(s for s in self._candidates if s not in self._tried and not s.is_retired)
        if self._deaths >= _MOST_DEATHS or not self._send_to(others, self._dispatcher.clock.now()):
            self._refuse(_upstream_failed(state, why, len(self._tried)))

    def _break_off(self, relay: Relay, why: str) -> None:
        state = self._state
        assert state is not None
        _log.warning(
            "request %s: replica %s broke off: %s", self._request_id.decode(), state.endpoint.replica, why
        )
        refused = _upstream_failed(state, f"broke off its answer: {why}", len(self._tried))
        self._end_broken(relay, refused, Outcome.FAILED)

    # Ends. Each request comes to exactly one of _end (its answer is whole) and _stop (nobody waits for it).

    def _refuse(self, refused: Refused, *, linger: bool = False) -> None:
        answer = refusal_answer(refused, self._stamps(), keep_alive=self.keep_alive)
        self._client.transport.write(answer)
        self._end(Outcome.NEUTRAL, keep_alive=self.keep_alive, linger=linger)

    def _end_broken(self, relay: Relay, refused: Refused, outcome: Outcome) -> None:
        """End an answer in its middle, with an event that says why where it is a stream."""
        if relay.break_off(refused):
            self._end(outcome, keep_alive=False)
        else:
            self._cut(outcome)

    def _cut(self, outcome: Outcome) -> None:
        self._stop(outcome)
        self._client.transport.abort()

    def _end(self, outcome: Outcome, *, keep_alive: bool, linger: bool = False) -> None:
        self._stop(outcome)
        self._client.answered(keep_alive=keep_alive, linger=linger)

    def _stop(self, outcome: Outcome) -> None:
        self.response_complete = True
        self._dispatcher.in_flight.discard(self)
        if self._opening is not None:
            self._opening.cancel()
            self._opening = None
        if self._back is not None:
            self._back.let_go()
            self._back = None
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        self._release(outcome)

    def _release(self, outcome: Outcome) -> None:
        state, self._state = self._state, None
        if state is not None:
            state.done(outcome, self._dispatcher.clock.now())

    def _broke(self) -> None:
        request_id = self._request_id.decode()
        _log.exception("request %s broke", request_id)
        if self.response_complete:
            return
        if self._relay is None:
            self._refuse(internal_error(request_id))
        else:
            self._cut(Outcome.NEUTRAL)

    def _stamps(self) -> bytes:
        state = self._state or (self._tried[-1] if self._tried else None)
        return b"x-request-id: %b\r\n%b" % (self._request_id, b"" if state is None else state.stamps)

    def describe(self) -> InFlight:
        """Show it to operators."""
        asked, key, state = self._asked, self.arrival.key, self._state
        assert asked is not None
        assert key is not None
        return InFlight(
            request_id=self._request_id.decode(),
            task=self._task,
            asked=asked.model,
            stream=asked.stream,
            model=None if state is None else state.endpoint.model,
            replica=None if state is None else state.endpoint.replica,
            generation=None if state is None else state.endpoint.generation,
            key=key.prefix,
            phase="connecting" if self._back is None else "waiting" if self._relay is None else "answering",
            age_s=self._dispatcher.clock.now() - self._began_at,
        )


def _upstream_failed(state: EndpointState, why: str, tried: int) -> Refused:
    endpoint = state.endpoint
    among = "" if tried == 1 else f" (the last of {tried} tried)"
    message = (
        f"replica {endpoint.replica!r} of model {endpoint.model!r}{among}, {endpoint.engine} on node "
        f"{endpoint.node!r}, {why}; try again, or have the operator look at its log"
    )
    return Refused(
        status=502, type="server_error", code="upstream_failed", message=message, retry_after_s=RETRY_AFTER_S
    )
