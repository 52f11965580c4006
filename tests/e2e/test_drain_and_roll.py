"""Nodes that are drained and models that are rolled while clients ask, with the real engine: no request is lost."""

import threading
from collections import Counter
from typing import Any

import httpx
import pytest
from real.gemma import model_path
from real.house import House, wait_for

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

MODEL = "gemma-270m"


def _catalog(context: int) -> dict[str, Any]:
    profile = {
        "name": "cpu",
        "engine": "llama.cpp",
        "weights": f"file://{model_path()}",
        "context": context,
        "parallel": 2,
    }
    return {"models": [{"name": MODEL, "profiles": [profile]}]}


class _Clients:
    """Asks for short streams, one after the other, from two threads, and keeps how each ended."""

    def __init__(self, house: House, key: str) -> None:
        self._url = f"{house.url}/chat/completions"
        self._headers = {"authorization": f"Bearer {key}"}
        self._ended = threading.Event()
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(2)]
        self.answers: list[tuple[int | str, bool, str | None]] = []

    def __enter__(self) -> "_Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(60)

    def replicas(self) -> Counter[str | None]:
        return Counter(replica for _, _, replica in self.answers)

    def _ask_on(self) -> None:
        with httpx.Client(timeout=60) as client:
            while not self._ended.is_set():
                self.answers.append(self._ask(client))

    def _ask(self, client: httpx.Client) -> tuple[int | str, bool, str | None]:
        body = {
            "model": MODEL,
            "messages": [{"role": "user", "content": "Count to a hundred."}],
            "max_tokens": 8,
            "stream": True,
        }
        try:
            with client.stream("POST", self._url, json=body, headers=self._headers) as answer:
                text = answer.read()
        except httpx.HTTPError as error:
            return repr(error), False, None
        return answer.status_code, b"data: [DONE]" in text, answer.headers.get("x-llmgw-replica")


@pytest.fixture
def house(make_house: Any) -> House:
    house: House = make_house()
    house.start_server(nodes={"heartbeat": "500ms", "unreachable_after": "5s", "start_grace": "5s"})
    house.start_agent("n1")
    house.wait_node("n1", "ready")
    house.apply(_catalog(512))
    house.wait_ready(MODEL)
    return house


def test_no_request_is_lost_while_a_node_is_drained_and_a_model_is_rolled(house: House) -> None:
    """RUN-7, RUN-10."""
    key = house.ctl("keys", "create", "tests").stdout.strip()
    house.start_agent("n2")
    house.wait_node("n2", "ready")
    [first] = house.replicas(MODEL)

    with _Clients(house, key) as clients:
        wait_for("the first replica answers", lambda: clients.replicas()["gemma-270m.0"] > 2)
        house.ctl("nodes", "drain", "n1")
        wait_for("n1 is empty", lambda: house.node("n1")["replicas"] == [], 90)
        [second] = house.wait_ready(MODEL)
        wait_for("the second replica answers", lambda: clients.replicas()["gemma-270m.1"] > 2)
        house.apply(_catalog(1024))
        stale = house.replicas(MODEL)[0]["stale"]
        house.ctl("models", "roll", MODEL)
        rolled = wait_for("the roll ends", lambda: _ended_roll(house), 90)
        [third] = house.wait_ready(MODEL)
        wait_for("the new replica answers", lambda: clients.replicas()[third["id"]] > 2)
        house.ctl("replicas", "restart", third["id"])
        [fourth] = wait_for("it starts again", lambda: _restarted(house, third), 90)

    # Between the end of a restarted replica and its new start there is none, and clients are told to wait.
    lost = [answer for answer in clients.answers if answer[:2] not in ((200, True), (503, False))]
    assert lost == []
    assert (first["node"], second["node"]) == ("n1", "n2")
    assert stale == "stale"
    assert (rolled["state"], rolled["replaced"], rolled["why"]) == ("done", 1, None)
    assert third["stale"] == "current"
    assert (fourth["id"], fourth["pid"] != third["pid"]) == (third["id"], True)
    events = [event["text"] for event in house.json("node", "n1")["events"]]
    assert any("is to end: node n1 is drained" in text for text in events)


def _ended_roll(house: House) -> Any:
    roll = house.json("models")[0]["roll"]
    return roll if roll["state"] != "rolling" else None


def _restarted(house: House, before: dict[str, Any]) -> list[dict[str, Any]]:
    rows = house.replicas(MODEL)
    return rows if [r["phase"] == "ready" and r["pid"] != before["pid"] for r in rows] == [True] else []
