"""A node is cut off while its engine serves: the model moves, nobody is killed for it, and one copy is left at the end.

The server and both nodes live in network namespaces. What is cut is the wire of the node that has the model. Its engine
goes on for whoever still reaches it, and only when the wire is back may one of the two copies end: the older one.
"""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from real.house import wait_for

from faults.client import ask
from faults.network import Network
from faults.stage import QUICK, Process, Stage
from faults.tally import Tally
from faults.traffic import CHUNKS, TEXT

MODEL = "moving"
LONG = {"heartbeat": "5s", "unreachable_after": "15s", "lost_after": "30s", "start_grace": "20s"}
LONG_CUT_S, SHORT_CUT_S = 90.0, 8.0


def run(tally: Tally, root: Path) -> None:
    """Cut off the node that has the model, once a round."""
    if not tally.short:
        tally.rounds = min(tally.rounds, 3)
    nodes, cut_s = (QUICK, SHORT_CUT_S) if tally.short else (LONG, LONG_CUT_S)
    with Network("server", "n1", "n2") as network, Stage(root, tally) as stage:
        begin_inside(stage, network, nodes)
        stage.apply(stage.model(MODEL, "--chunks", str(CHUNKS)))
        for number in range(1, tally.rounds + 1):
            _round(stage, network, number, cut_s)
        stage.check_nothing_left()


def begin_inside(stage: Stage, network: Network, nodes: dict[str, str]) -> None:
    """Start server and agents, each in the namespace of its name."""
    stage.house.before = {name: network.inside(name) for name in network.address}
    here = f"{network.address['server']}:0"
    listen: dict[str, Any] = {"client": here, "admin": here, "agents": here}
    listen |= {"admin_without_login": True, "insecure_plaintext": True}
    stage.agent_settings = {"insecure_plaintext": True}
    stage.begin(*(name for name in network.address if name != "server"), nodes=nodes, listen=listen)


def _round(stage: Stage, network: Network, number: int, cut_s: float) -> None:
    tally = stage.tally
    [old] = stage.wait_ready(MODEL)
    engine, away = Process(old["pid"]), old["node"]
    began = time.monotonic()
    network.cut(away)
    try:
        new = _moved(stage, old, began)
        _check_serving(stage, network, number, old, engine, began + cut_s)
        _check_routed(stage, number)
    finally:
        network.heal(away)
    healed = time.monotonic()
    stage.wait_nodes(away, seconds=45)
    _check_one_left(stage, number, new, engine, healed)
    _check_record(stage, number, old)
    tally.say(
        f"round {number}: {old['generation']} on {away} cut, {new['generation']} on {new['node']} stays"
    )


def _moved(stage: Stage, old: dict[str, Any], began: float) -> dict[str, Any]:
    def elsewhere() -> Any:
        rows = stage.replicas(MODEL)
        return next((row for row in rows if row["node"] != old["node"] and row["phase"] == "ready"), None)

    row: dict[str, Any] = wait_for("the model is ready on the other node", elsewhere, 90)
    stage.tally.measure("moved_s", time.monotonic() - began)
    return row


def _check_serving(
    stage: Stage, network: Network, number: int, old: dict[str, Any], engine: Process, until: float
) -> None:
    """Ask the cut engine from beside it, until the cut has lasted long enough."""
    while True:
        if network.fetch(old["node"], f"http://{old['address']}/health") != {"status": "ok"}:
            stage.tally.lost(f"round {number}: the cut engine does not serve (alive: {engine.lives})")
            return
        if time.monotonic() >= until:
            return
        time.sleep(0.2)


def _check_routed(stage: Stage, number: int) -> None:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Count"}]}
    answer = asyncio.run(ask(stage.house.listening["client"], stage.key, body))
    if not answer.is_whole or answer.text != TEXT:
        stage.tally.lost(f"round {number}: a request during the cut: {answer}")


def _check_one_left(stage: Stage, number: int, new: dict[str, Any], engine: Process, healed: float) -> None:
    def one() -> bool:
        rows = [(row["pid"], row["generation"]) for row in stage.replicas(MODEL)]
        return stage.engines() == {new["pid"]} and rows == [(new["pid"], new["generation"])]

    try:
        wait_for("one generation is left", one, 30)
    except AssertionError:
        found = [(row["node"], row["pid"], row["generation"]) for row in stage.replicas(MODEL)]
        tell = stage.tally.doubled if engine.lives else stage.tally.lost
        tell(f"round {number}: engines {sorted(stage.engines())}, replicas {found}, wanted {new['pid']}")
    stage.tally.measure("one_left_s", time.monotonic() - healed)


def _check_record(stage: Stage, number: int, old: dict[str, Any]) -> None:
    """Look for what happened in what an operator can see of the node that was cut."""
    listed = stage.house.node(old["node"])
    for where, told in (("nodes", listed), (f"node {old['node']}", stage.house.json("node", old["node"]))):
        events = json.dumps(told.get("events"))
        for word in ("lost", old["id"], old["generation"]):
            stage.tally.expect(
                word in events, f"round {number}: ctl {where} has no event with {word!r}: {events[:600]}"
            )
