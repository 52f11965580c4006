"""SIGKILL of the agent in the middle of a stream: the engine must not notice, and its next agent must know it.

The real engine at temperature 0 with one slot and no prompt cache says the same every time, so a stream during which
the agent died can be compared with one that nobody disturbed, character by character.
"""

import asyncio
import time
from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.client import Answer, ask
from faults.stage import LAUNCHER, QUICK, Process, Stage, real_weights
from faults.tally import Tally

MODEL = "gemma-270m"
KILL_AT_CHUNK = 5
TOKENS = 80
# One thread: several wait for each other, which takes for ever where the cores are busy with something else.
ARGS = ("--no-cache-prompt", "--cache-ram", "0", "--threads", "1")
BODY: dict[str, Any] = {
    "model": MODEL,
    "messages": [{"role": "user", "content": "Tell a long story about a lighthouse."}],
    "max_tokens": TOKENS,
    "temperature": 0,
    "stream": True,
    "stream_options": {"include_usage": True},
    # Otherwise the model ends its story before anybody can be killed.
    "ignore_eos": True,
}


def run(tally: Tally, root: Path) -> None:
    """Kill the agent once a round, while a stream is on its way."""
    weights = real_weights()
    with Stage(root, tally) as stage:
        stage.begin("n1", engine=LAUNCHER, nodes=QUICK)
        stage.apply(stage.model(MODEL, *ARGS, weights=weights, parallel=1, context=1024))
        [before] = stage.wait_ready(MODEL, seconds=120)
        engine, log = Process(before["pid"]), stage.log_of("n1", before["shard"])
        undisturbed = _asked(stage)
        tally.expect(undisturbed.is_whole, f"the undisturbed stream: {undisturbed}")
        tally.expect(
            undisturbed.chunks > KILL_AT_CHUNK, f"the undisturbed stream is too short: {undisturbed}"
        )
        for number in range(1, tally.rounds + 1):
            _round(stage, number, before, engine, log, undisturbed)
        stage.check_nothing_left()


def _round(
    stage: Stage, number: int, before: dict[str, Any], engine: Process, log: Path, undisturbed: Answer
) -> None:
    tally, written = stage.tally, log.stat()
    # Every other round, the next agent adopts the engine while the stream is still on its way.
    at_once = number % 2 == 1
    answer = _asked(stage, kill="n1", restart=at_once)
    if (answer.text, answer.usage) != (undisturbed.text, undisturbed.usage) or not answer.is_whole:
        tally.lost(f"round {number}: {answer}; undisturbed: {undisturbed}")
    began = time.monotonic()
    if not at_once:
        stage.start_agent("n1", engine=LAUNCHER)
    stage.wait_nodes("n1")
    tally.measure("node_ready_s", time.monotonic() - began)
    try:
        rows = stage.wait_ready(MODEL, seconds=60)
    except AssertionError as error:
        tally.lost(f"round {number}: the replica: {error}")
        rows = stage.replicas()
    tally.measure("replica_ready_s", time.monotonic() - began)
    told = [(row["pid"], row["address"], row["generation"]) for row in rows]
    if told != [(before["pid"], before["address"], before["generation"])] or not engine.lives:
        tally.lost(f"round {number}: {before['pid']} at {before['address']} served, now {told}")
    if stage.starts() != [engine.pid]:
        tally.doubled(f"round {number}: engines were started with the pids {stage.starts()}")
    _check_log(stage, number, log, written.st_ino, written.st_size)
    tally.say(f"round {number}: {answer.chunks} chunks, engine {engine.pid}, log {log.stat().st_size} bytes")


def _check_log(stage: Stage, number: int, log: Path, inode: int, size: int) -> None:
    """Let the engine say something, and look whether it still arrives in the same file behind what was there."""
    _asked(stage, tokens=4)

    def grew() -> bool:
        now = log.stat()
        return now.st_ino == inode and now.st_size > size

    try:
        wait_for("the engine's log goes on", grew, 5)
    except AssertionError:
        stage.tally.lost(f"round {number}: the log stands at {log.stat().st_size} bytes, {size} before")


def _asked(stage: Stage, kill: str | None = None, restart: bool = False, tokens: int = TOKENS) -> Answer:
    def on_chunk(count: int) -> None:
        if kill is None or count != KILL_AT_CHUNK:
            return
        stage.house.kill(kill)
        if restart:
            stage.start_agent(kill, engine=LAUNCHER)

    return asyncio.run(
        ask(stage.house.listening["client"], stage.key, BODY | {"max_tokens": tokens}, on_chunk=on_chunk)
    )
