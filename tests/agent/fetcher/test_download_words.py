"""What a download says of its steps: enough to tell from its log alone what it asked, got, and why it failed."""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from fakes.small_fetcher import SmallFetcher
from fakes.waiting import until
from fakes.weights_server import COMMIT, Manner, WeightsServer

CONTENT = bytes(range(256)) * 2000
SHA = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server() -> Iterator[WeightsServer]:
    with WeightsServer() as server:
        yield server


@pytest.fixture
async def small(tmp_path: Path, server: WeightsServer) -> AsyncIterator[SmallFetcher]:
    async with SmallFetcher(tmp_path / "cache", hub=server.url) as small:
        yield small


@pytest.fixture
def words(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, "llmgw.agent.fetcher")
    return caplog


async def test_the_steps_of_a_download_are_told_in_their_order(
    server: WeightsServer, small: SmallFetcher, words: pytest.LogCaptureFixture
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(cut_after=100_000))
    asked = f"weights {source}: asks {server.url}/org/repo/resolve/{COMMIT}/m.gguf for"

    found = await small.fetched(source)

    said = [message for message in words.messages if "trying again" not in message]
    assert said == [
        f"{source}: looks up what it consists of",
        f"{source}: its source says 500.0 KiB, sha256:{SHA}",
        f"fetches {source} into {found}: 0 B of 500.0 KiB",
        f"{asked} all of it",
        f"{asked} what follows byte 100000",
        f"weights {source}: verified, 512000 bytes have the hash sha256:{SHA}",
        f"fetched {source}, 500.0 KiB, to {found}",
    ]
    assert [message for message in words.messages if "trying again in 0 s" in message]


async def test_a_redirect_to_another_host_is_told_without_what_signs_it(
    server: WeightsServer, small: SmallFetcher, words: pytest.LogCaptureFixture
) -> None:
    with WeightsServer() as other:
        place = other.serve("/m.gguf", CONTENT)
        source = server.serve("/m.gguf", CONTENT, Manner(redirect=f"{place}?signature=s1gn3d"))

        await small.fetched(source)

    assert f"127.0.0.1:{server.port} sends on to 127.0.0.1:{other.port}" in words.messages
    assert "s1gn3d" not in words.text


async def test_what_is_gone_on_with_and_what_is_thrown_away_is_told(
    server: WeightsServer, small: SmallFetcher, words: pytest.LogCaptureFixture
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(stall_after=300_000))
    ticket = small.join(source)
    await until(lambda: ticket.progress.done_bytes == 300_000)
    ticket.leave()
    await asyncio.wait([ticket.outcome])

    await small.fetched(source)

    assert f"{source}: ended at 293.0 KiB of 500.0 KiB, for nobody waits for it now; what came stays" in (
        words.messages
    )
    assert f"weights {source}: 300000 bytes of it are here from an earlier try" in words.messages


async def test_a_partial_of_what_the_source_had_before_is_thrown_away_and_that_is_told(
    server: WeightsServer, small: SmallFetcher, words: pytest.LogCaptureFixture
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(stall_after=300_000))
    ticket = small.join(source)
    await until(lambda: ticket.progress.done_bytes == 300_000)
    ticket.leave()
    await asyncio.wait([ticket.outcome])
    server.serve_hub("org/repo", "m.gguf", CONTENT[::-1])

    found = await small.fetched(source)

    assert found == small.place(source)
    assert [
        message for message in words.messages if "300000 bytes of" in message and "thrown away" in message
    ]


async def test_a_file_without_a_hash_is_told_as_not_verified(
    server: WeightsServer, small: SmallFetcher, words: pytest.LogCaptureFixture
) -> None:
    source = server.serve("/m.gguf", CONTENT)

    await small.fetched(source)

    assert f"{source}: its source says 500.0 KiB, no hash" in words.messages
    assert (
        f"weights {source}: 512000 bytes are here; its source names no hash to verify them by"
        in words.messages
    )
