"""Logs of a real agent and its engines: the words that say why, follows over every break, and no secret anywhere."""

import contextlib
import http.cookiejar
import json
import re
import shlex
import sys
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from real.house import ROOT, House, wait_for

sys.path.append(str(Path(__file__).parents[2] / "bench"))

from faults.tally import Tally
from logs import long_follow, viewers

pytestmark = pytest.mark.slow

ENGINE = ROOT / "tests" / "fakes" / "engine_program.py"
SIGNATURE = "s1gnature%2Fof%2Ba0url1234567890"
PASSWORD, HUB_TOKEN = "correct-horse-battery-42", "hf_abcdefghijKLMNOP0123456789"
LOGIN_PASSWORD, NEXT_PASSWORD = "Tr0ub4dor staple parade", "another9 parade of staples"
WRONG_KEY, HEADER_KEY = "sk-llmgw-wrongwrongwrong0123456789", "plainapikey0123456789"


class SecretHouse(House):
    """A house whose agents are given a token of a hub, as an operator gives it."""

    def environment(self) -> dict[str, str]:
        return super().environment() | {"HF_TOKEN": HUB_TOKEN}


def engine(house: House) -> dict[str, str]:
    program = house.root / "engine.sh"
    program.write_text(f'#!/bin/sh\nexec {shlex.join((sys.executable, "-I", str(ENGINE)))} "$@"\n')
    program.chmod(0o755)
    return {"llama.cpp": str(program)}


def model(house: House, name: str, *args: str, **profile: Any) -> dict[str, Any]:
    weights = house.root / "weights.gguf"
    weights.write_bytes(b"no weights: the engine has none\n")
    given = {"name": "p", "engine": "llama.cpp", "weights": f"file://{weights}", "args": list(args)}
    return {"name": name, "profiles": [given | {"gpus": 0} | profile]}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    made = House(tmp_path_factory.mktemp("house"))
    try:
        made.start_server()
        made.start_agent("n1", engines=engine(made))
        made.wait_node("n1", "ready")
        yield made
    finally:
        made.close()


def test_a_failed_start_is_told_in_the_engines_own_words_by_one_command(house: House) -> None:
    house.apply({"models": [model(house, "bad", "--die", "3")]})
    wait_for("the start failed", lambda: [r for r in house.replicas("bad") if r["phase"] == "failed"])

    shown = house.ctl("logs", "n1", "--source", "bad.0.0")
    crash = house.ctl("logs", "n1", "--source", "bad.0.0@crash")
    refused = house.ctl("logs", "n1", "--source", "NOPE", code=1)

    assert "cause: the weights are broken" in shown.stdout.splitlines()
    assert "other sources (--source): agent, bad.0.0@crash" in shown.stderr
    assert "cause: the weights are broken" in crash.stdout.splitlines()
    assert refused.stdout == ""
    assert "no log source 'NOPE' on node n1; it has: agent, bad.0.0, bad.0.0@crash" in refused.stderr


def test_a_shard_whose_model_is_gone_still_shows_what_it_said(house: House) -> None:
    house.apply({"models": [model(house, "short", "--say", "I was here")]})
    house.wait_ready("short")
    house.apply({"models": []}, "--prune")
    wait_for("it is gone", lambda: not house.replicas("short"))

    assert "I was here" in house.ctl("logs", "n1", "--source", "short.0.0").stdout


def test_a_download_that_cannot_be_is_told_by_its_own_log(house: House) -> None:
    house.apply({"models": [model(house, "far", weights="https://127.0.0.1:1/far.gguf")]})

    def fetched() -> list[str]:
        return [name for name in house.json("logs", "n1")["sources"] if name.startswith("fetch:")]

    [source] = wait_for("the download has said something", fetched)

    assert "trying again" in house.ctl("logs", "n1", "--source", source).stdout
    house.apply({"models": []}, "--prune")


def test_a_node_that_nobody_knows_is_refused_at_once(house: House) -> None:
    assert "no node called 'nobody' has a stream" in house.ctl("logs", "nobody", code=1).stderr


def test_the_agents_own_lines_are_its_journals_too(house: House) -> None:
    shown = house.ctl("logs", "n1").stdout.splitlines()

    assert any("registered with server" in line for line in shown)
    assert set(shown) <= set(house.log("n1").splitlines())


def test_following_a_talking_engine_loses_and_doubles_nothing_over_every_break(tmp_path: Path) -> None:
    tally = Tally("follow", rounds=1, short=True)

    long_follow.run(tally, tmp_path)

    assert tally.problems == []


def test_fifty_viewers_of_ten_sources_cost_the_agent_each_source_once(tmp_path: Path) -> None:
    tally = Tally("viewers", rounds=1, short=True)

    viewers.run(tally, tmp_path)

    assert tally.problems == []


def asked(url: str, body: dict[str, Any] | None = None, **headers: str) -> None:
    """Ask, whatever comes of it."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"} | headers)
    with (
        contextlib.suppress(urllib.error.URLError, ConnectionError),
        urllib.request.urlopen(request, timeout=10),
    ):
        pass


def shown(house: House, source: str) -> str:
    """Read what the admin API answers for a source, be it lines or why there are none."""
    url = f"http://{house.listening['admin']}/api/v1/nodes/n1/logs?lines=2000&source={quote(source)}"
    try:
        with urllib.request.urlopen(url, timeout=15) as answer:
            return str(answer.read().decode())
    except urllib.error.HTTPError as error:
        return error.read().decode()


def written(house: House) -> dict[str, str]:
    """Read every log that a run wrote, and what is shown of each source."""
    found = {
        str(path.relative_to(house.root)): path.read_text(errors="replace")
        for path in house.root.glob("*.log")
    }
    for folder in ("logs", "jobs"):
        for path in (house.root / "n1" / folder).iterdir():
            found[f"n1/{folder}/{path.name}"] = path.read_text(errors="replace")
    for source in house.json("logs", "n1")["sources"]:
        found[f"shown {source}"] = shown(house, source)
    return found


def test_no_key_token_or_password_of_a_run_is_in_any_log(tmp_path: Path) -> None:
    house = SecretHouse(tmp_path)
    try:
        house.start_server()
        house.start_agent("n1", engines=engine(house))
        house.wait_node("n1", "ready")
        [first_token] = re.findall(r"/login/first\?token=(\S+)", house.log("server"))
        passed = _log_in(house, first_token)
        secrets = [PASSWORD, HUB_TOKEN, WRONG_KEY, HEADER_KEY, SIGNATURE]
        secrets += [house.ctl("keys", "create", "a").stdout.strip()]
        secrets += [house.ctl("keys", "create", "b", "--scope", "admin").stdout.strip()]
        house.apply(
            {
                "models": [
                    model(house, "serves", env={"HF_TOKEN": HUB_TOKEN, "DB_PASSWORD": PASSWORD}),
                    model(house, "dies", "--die", "3"),
                    model(
                        house, "far", weights=f"https://127.0.0.1:1/w.gguf?sig={SIGNATURE}&token={HUB_TOKEN}"
                    ),
                ]
            }
        )
        house.wait_ready("serves")
        wait_for("what cannot start has begun to", lambda: _tried(house) >= {"dies", "far"})
        _talk(house, secrets)
        house.kill("n1")
        house.start_agent("n1", engines=engine(house))
        house.wait_node("n1", "ready")

        logs = written(house)
        # The link is printed for whoever starts the server, and void by now; it is no line of any log that is shown.
        logs["server.log"] = re.sub(
            r"^llmgw server: no admin yet; .*$", "", logs["server.log"], flags=re.MULTILINE
        )
        secrets += [LOGIN_PASSWORD, NEXT_PASSWORD, first_token, *passed]
    finally:
        house.close()

    assert {"server.log", "n1.log", "n1/logs/dies.0.0.log", "shown agent", "shown dies.0.0"} <= logs.keys()
    assert any(name.startswith("n1/jobs/") for name in logs)
    # A run that begins this moment has said nothing yet.
    assert all(logs[name] for name in ("server.log", "n1.log", "shown agent", "shown dies.0.0"))
    for name, text in logs.items():
        for secret in secrets:
            # Half of it is enough for an attacker to know which one it is.
            assert secret not in text, f"{name} holds {secret}"
            assert secret[-12:] not in text, f"{name} holds the end of {secret}"


def _log_in(house: House, first_token: str) -> list[str]:
    """Make the first admin, log in wrong and right, look, and change the password; gives what browsers were handed."""
    base, jar = f"http://{house.listening['client']}", http.cookiejar.CookieJar()
    browser = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor(jar)
    )
    handed: set[str] = set()

    def send(page: str, path: str, **fields: str) -> None:
        html = browser.open(f"{base}{page}", timeout=10).read().decode()
        [token, *_] = re.findall(r'name="token" value="([^"]+)"', html)
        form = urllib.parse.urlencode({"token": token} | fields).encode()
        with contextlib.suppress(urllib.error.HTTPError):
            browser.open(f"{base}{path}", form, timeout=30).read()
        handed.update([token, *(cookie.value for cookie in jar if cookie.value)])

    again = {"password": LOGIN_PASSWORD, "again": LOGIN_PASSWORD}
    send(f"/login/first?token={first_token}", "/login/first", first=first_token, name="ada", **again)
    send("/account", "/logout")
    send("/login", "/login", name="ada", password=NEXT_PASSWORD)
    send("/login", "/login", name=LOGIN_PASSWORD, password="ada")
    send("/login", "/login", name="ada", password=LOGIN_PASSWORD)
    send("/admin/nodes/n1/logs", "/admin/nodes/n1/state", state="ready")
    changed = {"password": NEXT_PASSWORD, "again": NEXT_PASSWORD}
    send("/account", "/account/password", present=LOGIN_PASSWORD, **changed)
    assert len(handed) >= 5, "two sessions, the forms of each, and the form to log in with"
    return sorted(handed)


def _tried(house: House) -> set[str]:
    return {row["model"] for row in house.replicas() if row["phase"] in ("failed", "fetching")}


def _talk(house: House, secrets: list[str]) -> None:
    """Show every secret at every door, right and wrong, as clients do."""
    client, admin = house.listening["client"], house.listening["admin"]
    body = {"model": "serves", "messages": [{"role": "user", "content": "hi"}]}
    for secret in secrets:
        for url in (
            f"http://{client}/v1/models",
            f"http://{client}/api/v1/nodes/n1/logs",
            f"http://{admin}/api/v1/status",
        ):
            asked(f"{url}?api_key={secret}&token={secret}", Authorization=f"Bearer {secret}")
            asked(url, **{"X-Api-Key": secret, "Cookie": f"session={secret}"})
        asked(f"http://{client}/v1/chat/completions", body, Authorization=f"Bearer {secret}")
        asked(
            f"http://{client}/v1/chat/completions", {"model": secret}, Authorization=f"Bearer {secrets[-1]}"
        )
        asked(f"http://{client}/login", {"name": "me", "password": secret})
        house.ctl(
            "--key",
            secret,
            "--server",
            f"http://{client}",
            "logs",
            "n1",
            code=0 if secret == secrets[-1] else 1,
        )


def test_a_secret_that_an_engine_prints_is_cut_out_of_what_is_shown(house: House) -> None:
    house.apply({"models": [model(house, "leaks", "--say", f"curl -H 'Authorization: Bearer {WRONG_KEY}'")]})
    house.wait_ready("leaks")

    shown = house.ctl("logs", "n1", "--source", "leaks.0.0").stdout

    assert "Authorization: Bearer [redacted]" in shown
    assert WRONG_KEY not in shown
