"""An agent that plays a part in the demo fleet: obeys, fails or loads as its script says, and shows logs."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from fakes.demo_fleet import (
    FAILING,
    FAILURE,
    FETCHING,
    GREETING,
    TAIL,
    agent_lines,
    engine_lines,
    progress_at,
)
from fakes.linked_agent import LinkedAgent, state_of
from msgspec.structs import replace
from websockets.exceptions import ConnectionClosed

from llmgw.core.fleet.hardware import Gpu
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.fleet.snapshot import Introduction
from llmgw.wire.frames import (
    Ack,
    DrainShard,
    FollowLogs,
    Heartbeat,
    LogLines,
    LogsReply,
    LogsRequest,
    StartShard,
    StopFollow,
    StopShard,
)


class DemoAgent(LinkedAgent):
    """Registers as `said` and does as it is told, for as long as the connection lasts."""

    def __init__(self, port: int, said: Introduction, at: Callable[[], float]) -> None:
        """Take who it is.

        Args:
            at: tells Unix seconds.
        """
        super().__init__(port)
        self.said = said
        self._at = at
        self._shards: dict[str, ShardState] = {}
        self._began = at()
        self._follows: dict[int, _Follow] = {}
        self._written: dict[str, list[str]] = {"agent": list(GREETING)}

    async def play(self) -> None:
        """Play until the connection ends; what it ran before runs on when it is played again."""
        self.told, self.closed, self._follows = [], None, {}
        await self.open()
        await self.register(replace(self.said, shards=tuple(self._shards.values())))
        done = 0
        with suppress(ConnectionClosed):
            while self.closed is None:
                for frame in self.told[done:]:
                    await self._obey(frame)
                    done += 1
                await self._tell_followers()
                await self._beat()
                await asyncio.sleep(0.1)

    async def _obey(self, frame: Any) -> None:
        if isinstance(frame, StartShard):
            await self.say(Ack(seq=frame.seq))
            await self._start(frame.spec)
        elif isinstance(frame, StopShard | DrainShard):
            await self.say(Ack(seq=frame.seq))
            if state := self._shards.pop(frame.shard, None):
                await self.report(replace(state, phase=Phase.STOPPED))
        elif isinstance(frame, LogsRequest):
            await self.say(
                LogsReply(
                    request_id=frame.request_id,
                    lines=self._lines(frame.source)[-frame.lines :],
                    sources=self._sources(),
                    error=None
                    if frame.source in self._sources()
                    else f"no source is called {frame.source!r}",
                )
            )
        elif isinstance(frame, FollowLogs):
            self._follows[frame.follow_id] = _Follow(frame, len(self._lines(frame.source)))
        elif isinstance(frame, StopFollow):
            self._follows.pop(frame.follow_id, None)

    async def _start(self, spec: ShardSpec) -> None:
        state = replace(
            state_of(spec, port=40127 + len(self._shards), phase=Phase.STARTING),
            host=self.said.address,
            since_s=self._at(),
            claim=spec.claim,
            pid=4711 + len(self._shards),
        )
        if spec.model == FETCHING:
            state = replace(state, phase=Phase.FETCHING, port=None, progress=progress_at(0))
        self.write("agent", *agent_lines(spec.model, spec.shard))
        # Each run of an engine has a file of its own.
        self._written[spec.shard] = list(engine_lines(spec.model, spec.shard))
        await self._tell(state)
        if spec.model == FAILING:
            await self._tell(
                replace(
                    state, phase=Phase.FAILED, reason=FAILURE, exit_status=1, tail=TAIL, port=None, pid=None
                )
            )
        elif spec.model != FETCHING:
            await self._tell(replace(state, phase=Phase.READY))

    async def _tell(self, state: ShardState) -> None:
        self._shards[state.shard] = state
        await self.report(state)

    async def _beat(self) -> None:
        for state in list(self._shards.values()):
            if state.progress is not None:
                await self._tell(replace(state, progress=progress_at(self._at() - self._began)))
        await self.say(Heartbeat(memory=self.said.machine.memory, gpus=self._gpus()))

    def _gpus(self) -> tuple[Gpu, ...] | None:
        """Give the GPUs as they are while the shards that serve fill what they were promised."""
        gpus = self.said.machine.gpus
        if gpus is None:
            return None
        filled: dict[str, int] = {}
        for state in self._shards.values():
            if state.phase == Phase.READY and state.claim is not None:
                for uuid in state.claim.gpus:
                    filled[uuid] = filled.get(uuid, 0) + (state.claim.gpu_bytes or 0)
        return tuple(
            replace(gpu, free_bytes=(gpu.free_bytes or 0) - filled[gpu.uuid], utilization=0.62)
            if gpu.uuid in filled
            else gpu
            for gpu in gpus
        )

    def write(self, source: str, *lines: str) -> None:
        """Let a source say more; whoever follows it is told."""
        self._written.setdefault(source, []).extend(lines)

    async def _tell_followers(self) -> None:
        for follow in list(self._follows.values()):
            lines = self._lines(follow.source)
            end = len(lines) if follow.until is None else min(len(lines), follow.until)
            if follow.number and end == follow.at:
                continue
            follow.number += 1
            await self.say(
                LogLines(
                    follow_id=follow.id,
                    number=follow.number,
                    lines=lines[follow.at : end],
                    cursor=str(end),
                    live=end == len(lines),
                    ended=follow.until is not None,
                    sources=self._sources(),
                )
            )
            follow.at = end
            if follow.until is not None:
                del self._follows[follow.id]

    def _sources(self) -> tuple[str, ...]:
        return ("agent", *sorted(self._shards))

    def _lines(self, source: str) -> tuple[str, ...]:
        return tuple(self._written.get(source, ()))


class _Follow:
    """One follow: the source, where it is in it and where it ends, and the number of its last piece."""

    def __init__(self, frame: FollowLogs, there: int) -> None:
        self.id = frame.follow_id
        self.source = frame.source
        self.at = max(0, there - frame.lines) if frame.cursor is None else int(frame.cursor)
        self.until = None if frame.until is None else int(frame.until)
        self.number = 0
