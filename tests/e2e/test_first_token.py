"""Server and agent as processes of their own, the real engine, the real model, the official client."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from real.gemma import model_path
from real.house import House, get_json, wait_for

pytestmark = pytest.mark.slow

WIDTH = 640


def catalog(weights: Path) -> dict[str, Any]:
    profile = {"name": "cpu", "engine": "llama.cpp", "weights": f"file://{weights}", "parallel": 2}
    return {
        "models": [
            {"name": "gemma-270m", "aliases": ["small"], "profiles": [profile | {"context": 2048}]},
            {
                "name": "gemma-270m-embed",
                "profiles": [profile | {"context": 512, "parallel": 1, "args": ["--embeddings"]}],
            },
        ]
    }


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    house = House(tmp_path_factory.mktemp("first-token"))
    try:
        house.start_server()
        house.start_agent("n1")
        house.wait_node("n1", "ready")
        house.apply(catalog(model_path()))
        house.wait_ready("gemma-270m")
        house.wait_ready("gemma-270m-embed")
        yield house
    finally:
        house.close()


@pytest.fixture(scope="module")
def key(house: House) -> str:
    return house.ctl("keys", "create", "tests").stdout.strip()


@pytest.fixture
def client(house: House, key: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=house.url, api_key=key, max_retries=0, timeout=60) as client:
        yield client


def test_a_plain_chat_is_answered_with_text_and_usage(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="gemma-270m", messages=[{"role": "user", "content": "Say hello."}], max_tokens=12, temperature=0
    )

    assert answer.choices[0].message.content
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_an_alias_answers_like_the_model(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="small", messages=[{"role": "user", "content": "Hi"}], max_tokens=4
    )

    assert answer.usage is not None
    assert answer.usage.completion_tokens > 0


def test_a_streamed_chat_comes_in_chunks_with_the_usage_it_asked_for(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="gemma-270m",
        messages=[{"role": "user", "content": "Count to five."}],
        max_tokens=16,
        stream=True,
        stream_options={"include_usage": True},
    )

    chunks = list(stream)

    assert sum(bool(c.choices and c.choices[0].delta.content) for c in chunks) > 1
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens > 0


def test_a_plain_completion_is_answered(client: openai.OpenAI) -> None:
    answer = client.completions.create(model="gemma-270m", prompt="Once upon a time", max_tokens=8)

    assert answer.choices[0].text


def test_embeddings_have_the_width_of_the_model(client: openai.OpenAI) -> None:
    answer = client.embeddings.create(model="gemma-270m-embed", input=["one", "two"])

    assert [len(row.embedding) for row in answer.data] == [WIDTH, WIDTH]


def test_embeddings_on_the_chat_profile_get_an_error_that_names_model_and_engine(
    client: openai.OpenAI,
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.embeddings.create(model="gemma-270m", input="one")

    assert "gemma-270m" in str(caught.value)
    assert "llama.cpp" in str(caught.value)


def test_the_model_list_names_every_model(client: openai.OpenAI) -> None:
    names = {model.id for model in client.models.list().data}

    assert {"gemma-270m", "gemma-270m-embed"} <= names
    assert client.models.retrieve("gemma-270m").id == "gemma-270m"


def test_a_bad_key_is_refused(house: House) -> None:
    with (
        openai.OpenAI(base_url=house.url, api_key="sk-llmgw-wrong", max_retries=0) as client,
        pytest.raises(openai.AuthenticationError) as caught,
    ):
        client.chat.completions.create(model="gemma-270m", messages=[{"role": "user", "content": "Hi"}])

    assert caught.value.code == "invalid_api_key"


def test_a_revoked_key_is_refused_at_once(house: House) -> None:
    key = house.ctl("keys", "create", "short-lived").stdout.strip()
    row = next(row for row in house.json("keys", "list") if row["name"] == "short-lived")
    headers = {"authorization": f"Bearer {key}"}
    before = httpx.get(f"{house.url}/models", headers=headers)

    house.ctl("keys", "revoke", str(row["id"]))
    after = httpx.get(f"{house.url}/models", headers=headers)

    assert (before.status_code, after.status_code) == (200, 401)


def test_an_unknown_model_is_not_found(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="gemma-270", messages=[{"role": "user", "content": "Hi"}])

    assert "gemma-270" in str(caught.value)
    assert caught.value.code == "model_not_found"


def test_a_client_that_leaves_in_mid_stream_frees_the_slot_within_a_second(house: House, key: str) -> None:
    [replica] = house.replicas("gemma-270m")
    slots = f"http://{replica['address']}/slots"
    body = {
        "model": "gemma-270m",
        "messages": [{"role": "user", "content": "Tell a very long story."}],
        "max_tokens": 1500,
        "stream": True,
        "ignore_eos": True,
    }
    with (
        httpx.Client(timeout=30) as http,
        http.stream(
            "POST", f"{house.url}/chat/completions", json=body, headers={"authorization": f"Bearer {key}"}
        ) as answer,
    ):
        seen = answer.iter_lines()
        for _ in range(8):
            next(seen)
        busy = [slot for slot in get_json(slots) if slot["is_processing"]]

    wait_for("the slot is free", lambda: not any(s["is_processing"] for s in get_json(slots)), 1.0)
    assert len(busy) == 1


def test_an_edited_profile_makes_the_replica_stale_until_it_is_edited_back(house: House) -> None:
    edited = catalog(model_path())
    edited["models"][1]["profiles"][0]["context"] = 1024

    changed = house.apply(edited).stdout
    stale = house.replicas("gemma-270m-embed")[0]["stale"]
    house.apply(catalog(model_path()))
    current = house.replicas("gemma-270m-embed")[0]["stale"]

    assert "changed gemma-270m-embed" in changed
    assert "unchanged gemma-270m" in changed
    assert (stale, current) == ("stale", "current")


def test_two_replicas_on_one_node_share_the_requests_and_a_pruned_model_stops(house: House, key: str) -> None:
    profile = catalog(model_path())["models"][0]["profiles"][0]
    model = {"name": "pair", "replicas": 1, "profiles": [profile | {"name": "pair"}]}
    house.apply({"models": [model]})
    [first] = house.wait_ready("pair")
    house.apply({"models": [model | {"replicas": 2}]})
    both = house.wait_ready("pair", 2)

    answered = set()
    with httpx.Client(timeout=60, headers={"authorization": f"Bearer {key}"}) as http:
        for _ in range(6):
            body = {"model": "pair", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
            answered.add(http.post(f"{house.url}/chat/completions", json=body).headers["x-llmgw-replica"])

    assert {row["id"] for row in both} == answered
    assert first["pid"] in {row["pid"] for row in both}
    pids = [row["pid"] for row in both]
    kept = house.apply(catalog(model_path())).stdout
    pruned = house.apply(catalog(model_path()), "--prune").stdout
    assert "kept" in kept
    assert "removed pair" in pruned
    wait_for("both engines are gone", lambda: not [p for p in pids if Path(f"/proc/{p}").exists()], 20)
    assert house.replicas("pair") == []
