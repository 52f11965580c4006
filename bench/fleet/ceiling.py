"""How many agents one server core bears: their number grows until the event loop is late, or a node is not served."""

import time
from pathlib import Path
from typing import Any

from fleet.child import Child
from fleet.stage import Stage, wait_registered

GOAL = 5000
LAG_P99_MS = 100.0
STEPS = (1000, 2500, 5000, 7500, 10_000, 12_500, 15_000)
SHORT_STEPS = (GOAL,)
WINDOW_S, SHORT_WINDOW_S = 20.0, 10.0
HEARTBEAT_S = 5.0
GROW_S = 90.0


def run(root: Path, *, short: bool, profile: str | None = None) -> dict[str, Any]:
    """Let the fleet grow; returns the figures."""
    steps, window_s = (SHORT_STEPS, SHORT_WINDOW_S) if short else (STEPS, WINDOW_S)
    ceiling, rows = 0, []
    stage = Stage(root, profile=profile)
    try:
        with stage.herd(serving=False) as herd:
            beat_bytes = herd.said["beat_bytes"]
            for count in steps:
                row = _step(stage, herd, count, window_s)
                rows.append(row)
                print("ceiling:", ", ".join(f"{name} {value}" for name, value in row.items()), flush=True)
                if not row["holds"]:
                    break
                ceiling = count
    finally:
        stage.server.end()
    return {"agents": ceiling, "beat_bytes": beat_bytes, "at_goal": _at_goal(rows), "pass": ceiling >= GOAL}


def _step(stage: Stage, herd: Child, count: int, window_s: float) -> dict[str, Any]:
    herd.ask("grow", count)
    seen = wait_registered(herd, count, seconds=GROW_S)
    # The beats of those that came last are as regular as the others' after one more.
    time.sleep(HEARTBEAT_S)
    before, began = herd.ask("seen"), time.monotonic()
    stage.server.ask("begin")
    time.sleep(window_s)
    figures, seen = stage.server.ask("end"), herd.ask("seen")
    passed_s = time.monotonic() - began
    ready = stage.ready_nodes()
    wanted = count * passed_s / HEARTBEAT_S
    beats, held_up = seen["beats"] - before["beats"], seen["held_up"] - before["held_up"]
    lost = seen["lost"] - before["lost"]
    holds = (
        figures["lag_p99_ms"] < LAG_P99_MS
        and (seen["registered"], ready) == (count, count)
        and (held_up, lost) == (0, 0)
        and beats >= 0.9 * wanted
    )
    return (
        {"agents": count, "ready": ready, "beats_per_s": round(beats / passed_s)}
        | {"cpu_us_per_beat": round(1e6 * figures["cpu"] * passed_s / max(1, beats))}
        | figures
        | {"held_up": held_up, "lost": lost, "holds": holds}
    )


def _at_goal(rows: list[dict[str, Any]]) -> dict[str, Any]:
    return next((row for row in rows if row["agents"] == GOAL), {})
