"""A real engine with one prompt in every slot that fills its context, and the memory that this takes."""

import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import msgspec
from real.engine_process import EngineProcess
from real.memory_group import memory_counter

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.core.fleet.model_shape import ModelShape
from llmgw.engines.engine import Engine
from llmgw.engines.gguf_shape import read_shape

ANSWER = 8
"""Tokens that are generated after each prompt."""
LIMIT_S = 1800.0


class Measured(msgspec.Struct, frozen=True, kw_only=True):
    """One measurement, in bytes.

    Attributes:
        estimated: what was reckoned before the engine was started.
        ready: what it had held when it was ready.
        peak: what it had held when every slot had answered.
        how: what counted.
    """

    estimated: int
    ready: int
    peak: int
    how: str

    @property
    def ratio(self) -> float:
        """How many times the peak was reckoned."""
        return self.estimated / self.peak


def measure(engine: Engine, install: EngineInstall, profile: Profile, weights: Path, log: Path) -> Measured:
    """Start an engine, fill the context of every slot at once, and compare.

    The weights are read before, so that their pages in the cache are nobody's of the group's; the profile should have
    them read, not mapped (--load-mode none), so that the engine holds its own.
    """
    head = weights.read_bytes()
    shape = read_shape(head)
    assert isinstance(shape, ModelShape), shape
    need = engine.need(profile, shape, len(head))
    assert need.estimated_bytes is not None
    counter = memory_counter()
    try:
        with EngineProcess(engine, install, profile, weights, log, before=counter.before) as process:
            process.readiness_until_ready(timeout_s=300)
            pid = process.process.pid
            ready = counter.peak_bytes(pid)
            _fill(process, profile.context)
            peak = counter.peak_bytes(pid)
    finally:
        counter.close()
    return Measured(estimated=need.estimated_bytes, ready=ready, peak=peak, how=counter.how)


def _fill(process: EngineProcess, tokens: int | None) -> None:
    props = process.json("GET", "/props")
    slots, context = props["total_slots"], props["default_generation_settings"]["n_ctx"]
    # Slots that share one cache are each told that all of it is theirs.
    context = min(context, (tokens or context) // slots)
    vocabulary = process.json("GET", "/v1/models")["data"][0]["meta"]["n_vocab"]

    def fill(slot: int) -> int:
        dice = random.Random(slot)
        prompt = [dice.randrange(vocabulary // 100, vocabulary // 10) for _ in range(context - 2 * ANSWER)]
        body = {"prompt": prompt, "n_predict": ANSWER, "id_slot": slot, "cache_prompt": True}
        status, answer = process.request("POST", "/completion", body, timeout_s=LIMIT_S)
        assert status == 200, answer
        return int(msgspec.json.decode(answer)["tokens_evaluated"])

    with ThreadPoolExecutor(slots) as pool, ExitStack() as failing:
        # The pool waits for its requests, and those wait for the engine: whoever is interrupted here ends it first.
        failing.callback(process.process.kill)
        read = list(pool.map(fill, range(slots)))
        failing.pop_all()
    assert read == [context - 2 * ANSWER] * slots, read
