"""How a shard comes to its weights: they are here, or it waits while they are fetched, and says how far that is."""

import asyncio
from pathlib import Path

from llmgw.agent.fetcher.fetcher import Ticket
from llmgw.agent.home import Home
from llmgw.agent.standing import Standing
from llmgw.core.fleet.logs import FETCH
from llmgw.core.fleet.shards import Phase, ShardSpec
from llmgw.core.fleet.weights import LocalFile, Remote, cache_name, read_source, shown_source


async def bring(spec: ShardSpec, home: Home, standing: Standing, told: asyncio.Event) -> Path | str:
    """Have the weights of a shard on this node; fetching is a phase of its own, and its progress is no transition.

    Args:
        told: set when the shard is to end; the download goes on for others who wait for it.

    Returns:
        Where they are, or why they are not; an empty text when the shard was told to end meanwhile.
    """
    text = spec.profile.weights
    source = read_source(text)
    if isinstance(source, str):
        return source
    if isinstance(source, LocalFile):
        return Path(source.path)
    if home.weights is None:
        return f"weights {shown_source(text)} are not on node {home.node}, and this agent fetches nothing"
    if (found := await home.weights.local(source)) is not None:
        return found
    ticket = home.weights.join(source, text)
    standing.enter(Phase.FETCHING)
    try:
        outcome = await _waited(ticket, standing, told, home.timings.progress_s)
    finally:
        ticket.leave()
    return _with_log(outcome, source, home) if isinstance(outcome, str) and outcome else outcome


async def _waited(ticket: Ticket, standing: Standing, told: asyncio.Event, every_s: float) -> Path | str:
    ending = asyncio.create_task(told.wait())
    try:
        while not ticket.outcome.done() and not told.is_set():
            standing.going(ticket.progress, ticket.trouble)
            await asyncio.wait((ticket.outcome, ending), timeout=every_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        ending.cancel()
    if not ticket.outcome.done():
        return ""
    return "its download was ended" if ticket.outcome.cancelled() else ticket.outcome.result()


def _with_log(reason: str, source: Remote, home: Home) -> str:
    """Say where the steps of a download are told that failed."""
    return f"{reason} (its steps: llmgw ctl logs {home.node} --source {FETCH}{cache_name(source)})"
