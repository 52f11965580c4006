"""A whole fleet that comes back at once: the server is killed and started again, and every agent dials anew."""

import time
from pathlib import Path
from typing import Any

from fleet.said import catalog
from fleet.stage import Stage, wait_registered

AGENTS = 1000
WITHIN_S = 15.0
LAG_P99_MS = 200.0
ROUNDS, SHORT_ROUNDS = 3, 1
SETTLE_S = 6.0
AFTERWARDS_S = 5.0


def run(root: Path, *, short: bool, profile: str | None = None) -> dict[str, Any]:
    """Restart the server under a fleet whose every node runs one replica of the catalog; returns the worst figures."""
    rows = []
    stage = Stage(root, profile=profile)
    try:
        stage.api("apply", {"catalog": catalog(AGENTS)})
        with stage.herd(serving=True) as herd:
            herd.ask("grow", AGENTS)
            wait_registered(herd, AGENTS, seconds=60)
            for number in range(1, (SHORT_ROUNDS if short else ROUNDS) + 1):
                time.sleep(SETTLE_S)
                row = _round(stage, herd)
                rows.append(row)
                said = ", ".join(f"{name} {value}" for name, value in row.items())
                print(f"returning: round {number}: {said}", flush=True)
    finally:
        stage.server.end()
    return {
        "agents": AGENTS,
        "all_registered_s": max(row["all_registered_s"] for row in rows),
        "lag_p99_ms": max(row["lag_p99_ms"] for row in rows),
        "lag_max_ms": max(row["lag_max_ms"] for row in rows),
        "own_lag_p99_ms": max(row["own_lag_p99_ms"] for row in rows),
        "pass": all(row["holds"] for row in rows),
    }


def _round(stage: Stage, herd: Any) -> dict[str, Any]:
    told = herd.ask("seen")["told"]
    stage.server.kill()
    stage.start_server()
    stage.server.ask("begin")
    seen = wait_registered(herd, AGENTS, seconds=2 * WITHIN_S)
    took_s = seen["last_now"] - stage.listens_now
    # What the server has to make of all that was said counts too.
    time.sleep(max(0.0, AFTERWARDS_S - took_s))
    figures, ready = stage.server.ask("end"), stage.ready_nodes()
    commands = herd.ask("seen")["told"] - told
    holds = (
        seen["registered"] == ready == AGENTS
        and took_s < WITHIN_S
        and figures["lag_p99_ms"] < LAG_P99_MS
        and commands == 0
    )
    return (
        {
            "registered": seen["registered"],
            "ready": ready,
            "all_registered_s": round(took_s, 1),
            "commands": commands,
        }
        | figures
        | {"holds": holds}
    )
