"""What an earlier agent on this state folder left behind, and what becomes of it.

1. An engine that lives and whose record can be read is adopted as it is.
2. One whose record can be read and that has ended is reported as ended; what it left running is killed.
3. One whose record a later version wrote, whose kind of engine this agent does not know, or of which the kernel does
   not tell, is kept apart: it goes on untouched, and its shard cannot be started here meanwhile.
4. A process that carries our mark and that no record describes is killed: nobody could ever name what it holds.
5. A record of a process that says it is of another launch is no record: that process is the other's.
6. Everything else is a stranger and is not touched, whatever its pid.
"""

import asyncio
import logging

import msgspec

from llmgw.agent.engine_process import EngineProcess, end_all_of, is_alive, kill_undescribed
from llmgw.agent.home import Home
from llmgw.agent.patience import call_within
from llmgw.agent.preflight import words
from llmgw.agent.processes import Identity, Mark, boot_id, launch_name, launch_of
from llmgw.agent.records import Later, Record

log = logging.getLogger("llmgw.agent.adoption")

LOOK_LIMIT_S = 10.0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An engine of ours that this agent must not touch; None is what its record does not say."""

    process: Identity | None
    launch: str | None
    because: str

    def holds(self) -> bool:
        """Tell whether it may still live."""
        return self.process is None or is_alive(self.process)


class LeftBehind(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: engines to adopt, ended ones each with its reason, and those kept apart, by shard."""

    living: tuple[tuple[Record, EngineProcess], ...] = ()
    ended: tuple[tuple[Record, str], ...] = ()
    kept: dict[str, Kept] = {}


async def take_stock(home: Home) -> LeftBehind:
    """Find what was left behind and clear away what nobody could name.

    The records of ended engines and of dead later ones are removed; living ones are held and not touched.
    """
    found = await asyncio.to_thread(home.records.read)
    for problem in found.problems:
        log.error("%s", problem)
    living: list[tuple[Record, EngineProcess]] = []
    ended: list[tuple[Record, str]] = []
    kept: dict[str, Kept] = {}
    for record in found.records:
        try:
            process = EngineProcess.find(record.process, mark_of(record, home))
        except OSError as error:
            kept[record.shard] = _of_unknown_fate(record, words(error))
            continue
        if process is None:
            ended.append((record, await _ended(record, home)))
        elif (whose := await _launch_of(process)) not in (None, record.launch):
            process.release()
            why = f"its process, pid {record.process.pid}, is of {whose}, not of {record.launch}"
            log.error("%s", await asyncio.to_thread(home.records.set_aside, record, why))
        elif record.spec.profile.engine in home.engines:
            living.append((record, process))
        else:
            process.release()
            kept[record.shard] = _of_unknown_engine(record)
    for later in found.later:
        if (apart := _of_later_version(later)).holds():
            kept[later.shard] = apart
        else:
            await _forgotten(later.shard, home)
    for apart in kept.values():
        log.error("%s", apart.because)
    await _clear(home, [record for record, _ in living], kept)
    return LeftBehind(living=tuple(living), ended=tuple(ended), kept=kept)


def mark_of(record: Record, home: Home) -> Mark:
    """Say what the processes of a recorded engine carry."""
    return Mark(state_dir=str(home.state_dir.path), launch=record.launch)


async def _launch_of(process: EngineProcess) -> str | None:
    """Ask a living process which launch it is of; None when it does not say, or not soon."""
    try:
        return await call_within(LOOK_LIMIT_S, lambda: launch_of(process.identity.pid))
    except TimeoutError:
        return None


async def _ended(record: Record, home: Home) -> str:
    """Clear up behind an engine that has ended, and say how that was found."""
    try:
        await end_all_of(record.process, mark_of(record, home))
    except TimeoutError as error:
        # Its record stays, so that its shard is not started beside it and the next agent tries again.
        log.error("shard %s: what its engine left behind: %s", record.shard, error)
        return f"its engine, pid {record.process.pid}, ended while no agent was running, but {error}"
    await _forgotten(record.shard, home)
    if record.process.boot_id != boot_id():
        return "the machine was started again, and its engine ended with that"
    return (
        f"its engine, pid {record.process.pid}, ended while no agent was running (status unknown); "
        "its output may say why"
    )


async def _forgotten(shard: str, home: Home) -> None:
    try:
        await asyncio.to_thread(home.records.remove, shard)
    except OSError as error:
        log.error("the record of shard %s cannot be removed: %s", shard, words(error))


def _of_unknown_fate(record: Record, why: str) -> Kept:
    return Kept(
        process=record.process,
        launch=record.launch,
        because=f"shard {record.shard}: whether its engine, pid {record.process.pid}, lives cannot be told ({why}), so "
        "it is not touched; restart the agent when that is mended",
    )


def _of_later_version(later: Later) -> Kept:
    who = (
        "its engine"
        if later.process is None
        else f"its engine, pid {later.process.pid}, goes on untouched and"
    )
    return Kept(
        process=later.process,
        launch=None if later.generation is None else launch_name(later.shard, later.generation),
        because=f"shard {later.shard}: the record {later.path} is of version {later.version}, which this agent is "
        f"too old to read; {who} cannot be looked after here: install the later version again, or end it and remove "
        "that file",
    )


def _of_unknown_engine(record: Record) -> Kept:
    return Kept(
        process=record.process,
        launch=record.launch,
        because=f"shard {record.shard}: its engine, pid {record.process.pid}, goes on untouched, but this agent knows "
        f"no engine {record.spec.profile.engine!r} to look after it with: install the version that does, or end it",
    )


async def _clear(home: Home, living: list[Record], kept: dict[str, Kept]) -> None:
    if any(apart.process is None for apart in kept.values()):
        log.error("a record does not say which process it is of, so none is killed for want of a record")
        return
    sessions = {record.process.pid for record in living}
    sessions |= {apart.process.pid for apart in kept.values() if apart.process is not None}
    launches = {record.launch for record in living}
    launches |= {apart.launch for apart in kept.values() if apart.launch is not None}
    try:
        count = await kill_undescribed(home.state_dir.path, sessions, launches)
    except TimeoutError as error:
        log.error("engines of an earlier agent that no record describes: %s", error)
    else:
        if count:
            log.warning("killed %d processes of engines of an earlier agent that no record described", count)
