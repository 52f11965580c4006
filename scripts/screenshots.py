"""Take pictures of the admin pages of a real server whose fleet is simulated, for the documentation."""

import argparse
import asyncio
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from fakes.demo_agent import DemoAgent
from fakes.demo_fleet import CATALOG, FAILING, demo_nodes
from playwright.async_api import Browser, async_playwright, expect
from real.house import House

OUTPUT = Path(__file__).resolve().parents[1] / "docs" / "screenshots"
CHROMIUM = "/usr/bin/chromium"
SETTLED_S = 60.0
LOOK_S = 5.0
"""How long a page is looked at until its picture is taken, at most."""
PHONE, DESK = (390, 1500), (1440, 1000)


class Shot(NamedTuple):
    """One picture: a page, how wide it is looked at, and in which light."""

    name: str
    path: str
    size: tuple[int, int]
    scheme: str
    whole: bool = False


def shots(failing: str) -> tuple[Shot, ...]:
    """List the pictures.

    Args:
        failing: path of the logs of the engine that fails.
    """
    return (
        Shot("cluster-light", "/", DESK, "light", whole=True),
        Shot("cluster-dark", "/", DESK, "dark"),
        Shot("cluster-phone", "/", PHONE, "light"),
        Shot("node", "/nodes/h100-02", DESK, "light", whole=True),
        Shot("node-phone-dark", "/nodes/h100-02", PHONE, "dark"),
        Shot("logs", failing, DESK, "light"),
        Shot("logs-phone-dark", failing, (390, 844), "dark"),
        Shot("model", "/models/deepseek/r1-671b", DESK, "light"),
        Shot("replicas-dark", "/replicas", DESK, "dark"),
        Shot("weights", "/weights", DESK, "light"),
    )


def main() -> None:
    """Start the fleet, look at it, and leave the pictures behind."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT, help="folder for the pictures")
    parser.add_argument("--only", help="only pictures whose name begins like this")
    parser.add_argument("--serve", action="store_true", help="take none, and serve until Ctrl-C")
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="llmgw-screenshots-") as folder:
        house = House(Path(folder))
        try:
            asyncio.run(serve(house) if given.serve else take(house, given.output, given.only or ""))
        except KeyboardInterrupt:
            print("ended")
        finally:
            house.close()
    if not given.serve:
        shrink(given.output)


async def serve(house: House) -> None:
    """Say where the fleet can be looked at, and let it be."""
    async with playing(house) as admin:
        print(admin, flush=True)
        await asyncio.Event().wait()


@asynccontextmanager
async def playing(house: House) -> AsyncIterator[str]:
    """Run the server with the fleet until the block ends; gives the address of the admin listener."""
    house.start_server(nodes={"start_grace": "2s"})
    port = int(house.listening["agents"].rpartition(":")[2])
    admin = f"http://{house.listening['admin']}"
    # Pictures show what is real at the time they are taken.
    agents = [DemoAgent(port, said, time.time) for said in demo_nodes()]
    tasks = [asyncio.create_task(agent.play()) for agent in agents]
    try:
        async with httpx.AsyncClient(base_url=f"{admin}/api/v1", trust_env=False) as api:
            await until("all nodes", lambda: ready_nodes(api), len(agents))
            applied = await api.post("/apply", json={"catalog": CATALOG})
            assert applied.status_code == 200, applied.text
            await until("an engine that stays failed for a while", lambda: resting_failures(api), 1)
            await until("ready engines", lambda: phases(api, "ready"), 5)
            await api.post("/nodes/cpu-02/state", json={"state": "cordoned"})
            tasks.pop().cancel()
            await agents[-1].close()
            yield admin
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for agent in agents[:-1]:
            await agent.close()


async def ready_nodes(api: httpx.AsyncClient) -> int:
    """Count the nodes that are ready."""
    return sum(node["state"] == "ready" for node in (await api.get("/nodes")).json())


async def phases(api: httpx.AsyncClient, phase: str) -> int:
    """Count the replicas in a phase."""
    return sum(one["phase"] == phase for one in (await api.get("/replicas")).json())


async def resting_failures(api: httpx.AsyncClient) -> int:
    """Count the failed replicas that are not tried again while a picture is taken."""
    return sum((one["next_try_s"] or 0) > LOOK_S for one in (await api.get("/replicas")).json())


async def until(what: str, count: Callable[[], Any], least: int) -> None:
    """Wait until there are as many of something as there should be."""
    found = 0
    try:
        async with asyncio.timeout(SETTLED_S):
            # The server tells nobody that something changed.
            while (found := await count()) < least:  # noqa: ASYNC110
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise SystemExit(f"screenshots: wanted {least}, found {found}: {what}") from None


async def take(house: House, output: Path, only: str) -> None:
    """Take every picture whose name begins with `only`."""
    async with (
        playing(house) as admin,
        httpx.AsyncClient(base_url=f"{admin}/api/v1", trust_env=False) as api,
        async_playwright() as playwright,
    ):
        rows = (await api.get("/replicas")).json()
        failed = next(row for row in rows if row["model"] == FAILING)
        failing = f"/nodes/{failed['node']}/logs?source={failed['shard']}"
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for shot in shots(failing):
            if shot.name.startswith(only):
                await until("an engine that stays failed", lambda: resting_failures(api), 1)
                await picture(browser, admin, shot, output / f"{shot.name}.png")
        await browser.close()


def shrink(folder: Path) -> None:
    """Make the pictures smaller where the tool for that is there, and say how large they are."""
    pictures = sorted(folder.glob("*.png"))
    if (optipng := shutil.which("optipng")) is not None:
        subprocess.run([optipng, "-quiet", "-o2", *map(str, pictures)], check=True)
    for path in pictures:
        print(f"{path.name}: {path.stat().st_size // 1024} KiB")


async def picture(browser: Browser, admin: str, shot: Shot, path: Path) -> None:
    """Take one picture."""
    width, height = shot.size
    page = await browser.new_page(viewport={"width": width, "height": height}, color_scheme=shot.scheme)  # type: ignore[arg-type] # one of two words
    await page.goto(admin + shot.path)
    await expect(page.locator("#live")).to_have_text(re.compile("live|following"))
    await page.wait_for_timeout(1800)  # the mark of what is fresh fades
    await page.screenshot(path=path, full_page=shot.whole, animations="disabled")
    await page.close()


main()
