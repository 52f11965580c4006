"""What every form of llama.cpp must do, tried on the real engine with the real model (ENG, RUN-1, RUN-9)."""

import contextlib
import json
import subprocess
import sys
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import msgspec
import pytest
from real.engine_process import EngineProcess, polls
from real.gemma import WIDTH, model_path
from real.llama_server import llama_server_path

from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.hardware import EngineInstall
from llmgw.engines.engine import Readiness
from llmgw.engines.registry import engines
from llmgw.runtime.resources import packaged

pytestmark = pytest.mark.slow

ENGINE = engines({"xllamacpp": str(packaged("agent/launchers/llama_server.py"))})["llama.cpp"]
CHAT = Profile(name="cpu", engine="llama.cpp", weights="file:///gemma", context=4096, parallel=4)
EMBED = msgspec.structs.replace(CHAT, args=("--embeddings",))
LONG = {
    "max_tokens": 900,
    "ignore_eos": True,
    "messages": [{"role": "user", "content": "Count to a thousand."}],
}


@pytest.fixture(params=["llama-server", "xllamacpp"], scope="module")
def install(request: pytest.FixtureRequest) -> EngineInstall:
    form = request.param
    path = str(llama_server_path()) if form == "llama-server" else sys.executable
    return EngineInstall(engine="llama.cpp", form=form, path=path)


@pytest.fixture(scope="module")
def chat(install: EngineInstall, tmp_path_factory: pytest.TempPathFactory) -> Any:
    log = tmp_path_factory.mktemp("chat") / "log"
    with EngineProcess(ENGINE, install, CHAT, model_path(), log) as process:
        process.readiness_until_ready()
        yield process


def started(install: EngineInstall, profile: Profile, weights: Path, tmp_path: Path) -> EngineProcess:
    return EngineProcess(ENGINE, install, profile, weights, tmp_path / "log")


def test_it_says_its_version_on_standard_error(install: EngineInstall) -> None:
    launch = ENGINE.launch(install, CHAT, model="gemma", weights="/w", host="127.0.0.1", port=1)
    program = launch.argv[: launch.argv.index("--model")]

    done = subprocess.run([*program, "--version"], capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr.startswith("version: ")
    assert "(build " in done.stderr


def test_it_loads_and_then_is_ready_and_ends_on_sigterm_within_the_grace(
    install: EngineInstall, tmp_path: Path
) -> None:
    with started(install, CHAT, model_path(), tmp_path) as process:
        heard = process.readiness_until_ready()
        ended = process.terminate()

    assert heard == [Readiness.LOADING, Readiness.READY]
    assert ended == 0


def test_it_answers_to_the_name_of_the_model(chat: EngineProcess) -> None:
    listed = chat.json("GET", "/v1/models")

    assert [model["id"] for model in listed["data"]] == ["gemma"]


def test_it_chats_and_counts_tokens(chat: EngineProcess) -> None:
    asked = {"max_tokens": 8, "messages": [{"role": "user", "content": "Say hello."}]}

    answer = chat.json("POST", "/v1/chat/completions", asked)

    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"]
    assert 0 < answer["usage"]["completion_tokens"] <= 8


def test_it_completes(chat: EngineProcess) -> None:
    answer = chat.json("POST", "/v1/completions", {"prompt": "Once upon a time", "max_tokens": 8})

    assert answer["choices"][0]["text"]


def test_it_streams_chunks_usage_and_a_done_mark(chat: EngineProcess) -> None:
    asked = {
        "max_tokens": 8,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "Say hello."}],
    }

    status, body = chat.request("POST", "/v1/chat/completions", asked)

    events = [line.removeprefix(b"data: ") for line in body.splitlines() if line.startswith(b"data: ")]
    assert status == 200
    assert events[-1] == b"[DONE]"
    assert json.loads(events[-2])["usage"]["completion_tokens"] > 0
    assert len(events) > 3


def test_a_chat_profile_answers_embeddings_with_not_supported(chat: EngineProcess) -> None:
    status, body = chat.request("POST", "/v1/embeddings", {"input": "hello"})

    assert status == 501
    assert json.loads(body)["error"]["type"] == "not_supported_error"


def test_the_slots_are_as_many_as_its_capacity(chat: EngineProcess) -> None:
    slots = chat.json("GET", "/slots")

    assert len(slots) == ENGINE.capacity(CHAT) == 4
    assert {slot["n_ctx"] for slot in slots} == {1024}


def test_without_a_number_of_slots_it_makes_as_many_as_its_capacity_says(
    install: EngineInstall, tmp_path: Path
) -> None:
    profile = msgspec.structs.replace(CHAT, parallel=None)

    with started(install, profile, model_path(), tmp_path) as process:
        process.readiness_until_ready()
        slots = process.json("GET", "/slots")

    assert len(slots) == ENGINE.capacity(profile)


def test_metrics_are_on(chat: EngineProcess) -> None:
    status, body = chat.request("GET", "/metrics")

    assert status == 200
    assert b"llamacpp:requests_processing" in body


# The engine looks whether the client of a plain request is still there when no result of any request came for a
# second, so that asking more often would hide what is asked for.
@pytest.mark.parametrize(("stream", "interval_s"), [(True, 0.05), (False, 1.5)])
def test_it_stops_generating_when_the_client_leaves(
    chat: EngineProcess, stream: bool, interval_s: float
) -> None:
    client = HTTPConnection("127.0.0.1", chat.port, timeout=30)
    client.request("POST", "/v1/chat/completions", body=json.dumps({**LONG, "stream": stream}))
    began = any(chat.busy_slots() == 1 for _ in polls(10))

    client.close()
    stopped = any(chat.busy_slots() == 0 for _ in polls(4, interval_s))

    assert began
    assert stopped


def test_it_ends_on_sigterm_while_it_streams(install: EngineInstall, tmp_path: Path) -> None:
    with started(install, CHAT, model_path(), tmp_path) as process:
        process.readiness_until_ready()
        client = HTTPConnection("127.0.0.1", process.port, timeout=30)
        with contextlib.closing(client):
            client.request("POST", "/v1/chat/completions", body=json.dumps({**LONG, "stream": True}))
            client.getresponse().read(10)
            ended = process.terminate()

    assert ended == 0


def test_an_embeddings_profile_answers_with_vectors_of_the_models_width(
    install: EngineInstall, tmp_path: Path
) -> None:
    with started(install, EMBED, model_path(), tmp_path) as process:
        process.readiness_until_ready()
        answer = process.json("POST", "/v1/embeddings", {"input": ["hello", "world"]})

    assert [len(item["embedding"]) for item in answer["data"]] == [WIDTH, WIDTH]
    assert answer["data"][0]["embedding"] != answer["data"][1]["embedding"]


def broken_weights(tmp_path: Path, kind: str) -> Path:
    path = tmp_path / "broken.gguf"
    if kind == "truncated":
        with model_path().open("rb") as whole:
            path.write_bytes(whole.read(20_000_000))
    elif kind != "missing":
        path.write_bytes(b"" if kind == "empty" else b"not a model at all")
    return path


@pytest.mark.parametrize(
    ("kind", "cause"),
    [
        ("missing", "failed to open GGUF file"),
        ("empty", "failed to read magic"),
        ("foreign", "invalid magic characters"),
        ("truncated", "is not within the file bounds, model is corrupted or incomplete"),
    ],
)
def test_bad_weights_end_it_with_1_and_the_cause_is_found(
    install: EngineInstall, tmp_path: Path, kind: str, cause: str
) -> None:
    weights = broken_weights(tmp_path, kind)

    with started(install, CHAT, weights, tmp_path) as process:
        ended = process.process.wait(timeout=60)

    assert ended == 1
    assert cause in (ENGINE.failure_cause(process.lines()) or "")


def test_a_port_in_use_ends_it_with_1_and_the_cause_is_found(
    chat: EngineProcess, install: EngineInstall, tmp_path: Path
) -> None:
    second = started(
        install, msgspec.structs.replace(CHAT, args=("--port", str(chat.port))), model_path(), tmp_path
    )

    with second as process:
        ended = process.process.wait(timeout=60)

    assert ended == 1
    assert "couldn't bind HTTP server socket" in (ENGINE.failure_cause(process.lines()) or "")


@pytest.mark.parametrize(
    ("args", "cause"),
    [
        (("--mlock",), "error: invalid argument: --mlock"),
        (("--ctx-size", "many"), 'error while handling argument "--ctx-size"'),
        (("--pooling", "sum"), 'error while handling argument "--pooling"'),
        (("--ctx-size",), 'error while handling argument "--ctx-size"'),
    ],
)
def test_a_bad_flag_ends_it_with_1_and_the_cause_is_found(
    install: EngineInstall, tmp_path: Path, args: tuple[str, ...], cause: str
) -> None:
    profile = msgspec.structs.replace(CHAT, args=args)

    with started(install, profile, model_path(), tmp_path) as process:
        ended = process.process.wait(timeout=60)

    assert ended == 1
    assert cause in (ENGINE.failure_cause(process.lines()) or "")


def test_flags_that_profiles_often_carry_are_taken_by_both(install: EngineInstall, tmp_path: Path) -> None:
    args = (
        *("-t", "1", "-tb", "1", "-b", "256", "-ub", "256", "-fa", "on", "-ctk", "q8_0", "-ctv", "q8_0"),
        *("-ngl", "0", "--load-mode", "none", "--cache_ram", "0", "--jinja", "--seed", "7", "--temp", "0"),
        *("--no-warmup", "--slots", "--chat-template", "gemma", "-lv", "4", "--timeout", "60", "-kvu"),
        *("--reasoning-format", "none", "--rope-scaling", "none", "--numa", "distribute", "--fit", "off"),
    )
    profile = msgspec.structs.replace(CHAT, args=args)

    with started(install, profile, model_path(), tmp_path) as process:
        process.readiness_until_ready()
        asked = {"max_tokens": 4, "messages": [{"role": "user", "content": "Hello"}]}
        answers = [process.json("POST", "/v1/chat/completions", asked) for _ in range(2)]

    assert ENGINE.profile_problem(profile) is None
    texts = {answer["choices"][0]["message"]["content"] for answer in answers}
    assert len(texts) == 1
