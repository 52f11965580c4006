import logging
from pathlib import Path

import pytest
from fakes.clock import FakeClock

from llmgw.agent.fetcher.fetcher import Fetcher
from llmgw.agent.fetcher.web import Web
from llmgw.agent.stock import Stock
from llmgw.agent.weights import Weights, find_in
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.weights import HubFile, HubRepo, cache_name_of

FILE = "hf://org/repo/m.gguf"


def a_stock(tmp_path: Path, *folders: Path) -> Stock:
    cache = WeightsCache(tmp_path / "cache")
    web = Web(hub="http://127.0.0.1:9", token=lambda: None, silent_s=1.0)
    fetcher = Fetcher(cache, web, FakeClock(), silent_s=1.0, retry_s=1.0)
    return Stock(Weights(cache, fetcher, folders), shards=lambda: (), say=lambda frame: None)


def made(path: Path, content: bytes = b"GGUF") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


async def test_nothing_is_known_before_the_first_look_and_then_that_there_is_nothing(tmp_path: Path) -> None:
    stock = a_stock(tmp_path)

    before = stock.holdings()
    await stock.open()

    assert before is None
    assert stock.holdings() == ()
    assert (tmp_path / "cache").is_dir()


async def test_a_file_that_lies_in_a_folder_and_is_named_by_the_catalog_is_one_holding_with_its_source(
    tmp_path: Path,
) -> None:
    path = made(tmp_path / "models/m.gguf")
    stock = a_stock(tmp_path, tmp_path / "models")
    stock.look_for((f"file://{path}",))

    await stock.look()

    assert [(h.path, h.source) for h in stock.holdings() or ()] == [(str(path), f"file://{path}")]


async def test_a_cached_file_carries_the_source_that_the_catalog_calls_it(tmp_path: Path) -> None:
    name = cache_name_of(FILE) or ""
    made(tmp_path / "cache" / name)
    stock = a_stock(tmp_path)

    await stock.look()
    unnamed = stock.holdings() or ()
    stock.look_for((FILE,))
    await stock.look()
    named = stock.holdings() or ()

    assert [(h.cache_name, h.source) for h in unnamed] == [(name, None)]
    assert [(h.cache_name, h.source) for h in named] == [(name, FILE)]


async def test_what_was_removed_is_held_no_more(tmp_path: Path) -> None:
    name = cache_name_of(FILE) or ""
    made(tmp_path / "cache" / name)
    stock = a_stock(tmp_path)
    await stock.open()

    done = await stock.remove((name, ".."))
    await stock.look()

    assert done.removed == (name,)
    assert list(done.refused) == [".."]
    assert stock.holdings() == ()


async def test_a_folder_that_went_away_is_empty_and_hides_no_other(tmp_path: Path) -> None:
    gone, stays = made(tmp_path / "gone/a.gguf"), made(tmp_path / "stays/b.gguf")
    stock = a_stock(tmp_path, gone.parent, stays.parent)
    await stock.look()
    before = {h.path for h in stock.holdings() or ()}

    gone.unlink()
    gone.parent.rmdir()
    await stock.look()

    assert before == {str(gone), str(stays)}
    assert [h.path for h in stock.holdings() or ()] == [str(stays)]


def test_a_folder_of_ones_own_is_taken_for_a_source_only_where_no_revision_is_named(tmp_path: Path) -> None:
    path = made(tmp_path / "org/repo/m.gguf")
    made(tmp_path / "org/repo/config.json")

    assert find_in(tmp_path, HubFile("org/repo", "m.gguf")) == path
    assert find_in(tmp_path, HubFile("org/repo", "m.gguf", "v2")) is None
    assert find_in(tmp_path, HubRepo("org/repo")) is None


async def test_a_folder_of_ones_own_spares_the_download(tmp_path: Path) -> None:
    path = made(tmp_path / "models/org/repo/m.gguf")
    cache = WeightsCache(tmp_path / "cache")
    web = Web(hub="http://127.0.0.1:9", token=lambda: None, silent_s=1.0)
    fetcher = Fetcher(cache, web, FakeClock(), silent_s=1.0, retry_s=1.0)
    weights = Weights(cache, fetcher, (tmp_path / "models",))

    assert await weights.local(HubFile("org/repo", "m.gguf")) == path
    assert await weights.local(HubFile("org/repo", "other.gguf")) is None


async def test_a_folder_that_cannot_be_looked_at_is_told_once_and_again_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "llmgw.agent.stock")
    stock = a_stock(tmp_path, tmp_path / "models")

    await stock.look()
    await stock.look()
    (tmp_path / "models").mkdir()
    await stock.look()

    assert caplog.messages == [
        f"weights in {tmp_path / 'models'}: it cannot be looked at: No such file or directory",
        f"weights in {tmp_path / 'models'}: all of it can be looked at again",
    ]
