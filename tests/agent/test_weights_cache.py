"""Only what llmgw put into its cache is ever removed; everything else is refused in words."""

import os
from pathlib import Path

import pytest

from llmgw.agent.fetcher.staging import Staging
from llmgw.agent.weights_cache import Note, WeightsCache
from llmgw.core.fleet.weights import cache_name_of

NAME = cache_name_of("hf://org/repo/m.gguf") or ""
OTHER = cache_name_of("hf://org/repo/other.gguf") or ""
SET = cache_name_of("hf://org/repo/m-00001-of-00002.gguf") or ""
REPO = cache_name_of("hf://org/repo") or ""


@pytest.fixture
def cache(tmp_path: Path) -> WeightsCache:
    folder = tmp_path / "cache"
    folder.mkdir()
    return WeightsCache(folder)


def filled(cache: WeightsCache, name: str, size: int = 10) -> Path:
    path = cache.place(name)
    path.write_bytes(bytes(size))
    return path


def test_a_cached_file_goes_with_its_note_and_its_unfinished_download(cache: WeightsCache) -> None:
    filled(cache, NAME)
    staging = cache.staging(NAME)
    staging.mkdir()
    (staging / "part").write_bytes(bytes(5))
    cache.keep_note(NAME, Note(source="hf://org/repo/m.gguf"))
    kept = filled(cache, OTHER)

    done = cache.remove((NAME,), {})

    assert done.removed == (NAME,)
    assert done.freed_bytes >= 15
    assert list(cache.folder.iterdir()) == [kept]


def test_all_parts_of_a_split_file_go(cache: WeightsCache) -> None:
    filled(cache, SET)
    filled(cache, SET.replace("-00001-", "-00002-"))

    done = cache.remove((SET,), {})

    assert (done.removed, done.freed_bytes) == ((SET,), 20)
    assert list(cache.folder.iterdir()) == []


def test_a_whole_repository_goes_and_what_a_link_in_it_leads_to_stays(
    cache: WeightsCache, tmp_path: Path
) -> None:
    folder = cache.place(REPO)
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("x")
    (folder / "link").symlink_to(outside)

    done = cache.remove((REPO,), {})

    assert done.removed == (REPO,)
    assert (outside / "precious").read_text() == "x"


def test_an_unfinished_download_goes(cache: WeightsCache) -> None:
    cache.staging(NAME).mkdir()

    assert cache.remove((NAME,), {}).removed == (NAME,)
    assert list(cache.folder.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("..", "it is a path and no name of the cache; nothing outside of"),
        (".", "it is a path and no name of the cache"),
        ("", "it is a path and no name of the cache"),
        (f"../{NAME}", "it is a path and no name of the cache"),
        (f"/etc/{NAME}", "it is a path and no name of the cache"),
        (f"{NAME}\0", "it is a path and no name of the cache"),
        ("own.gguf", "its name is none that llmgw gives, so it is somebody's own file"),
        ("gone.gguf", "there is nothing of it in the cache"),
        (OTHER, "it is not in the cache"),
    ],
)
def test_what_is_no_cached_weights_is_refused_in_words(
    cache: WeightsCache, tmp_path: Path, name: str, words: str
) -> None:
    own = cache.folder / "own.gguf"
    own.write_text("mine")
    outside = tmp_path / NAME
    outside.write_text("outside")

    done = cache.remove((name,), {})

    assert words in done.refused[name]
    assert done.removed == ()
    assert own.exists()
    assert outside.exists()


def test_a_link_out_of_the_cache_is_refused_with_where_it_leads(cache: WeightsCache, tmp_path: Path) -> None:
    outside = tmp_path / "outside.gguf"
    outside.write_text("precious")
    cache.place(NAME).symlink_to(outside)
    folder = tmp_path / "folder"
    folder.mkdir()
    cache.place(REPO).symlink_to(folder)

    done = cache.remove((NAME, REPO), {})

    assert f"{NAME} is a link to {outside}" in done.refused[NAME]
    assert f"{REPO} is a link to {folder}" in done.refused[REPO]
    assert outside.exists()
    assert folder.exists()


def test_a_cached_file_with_a_strange_note_beside_it_is_refused_whole(
    cache: WeightsCache, tmp_path: Path
) -> None:
    path = filled(cache, NAME)
    outside = tmp_path / "note"
    outside.write_text("precious")
    (cache.folder / f"{NAME}.json").symlink_to(outside)

    done = cache.remove((NAME,), {})

    assert "is a link" in done.refused[NAME]
    assert path.exists()


def test_a_pipe_with_a_cache_name_is_somebodys_own(cache: WeightsCache) -> None:
    os.mkfifo(cache.place(NAME))

    assert "neither a file nor a folder" in cache.remove((NAME,), {}).refused[NAME]


def test_a_cache_that_is_reached_through_a_link_is_still_the_cache(
    cache: WeightsCache, tmp_path: Path
) -> None:
    filled(cache, NAME)
    linked = tmp_path / "linked"
    linked.symlink_to(cache.folder)

    assert WeightsCache(linked).remove((NAME,), {}).removed == (NAME,)


def test_what_another_process_fetches_stays(cache: WeightsCache) -> None:
    other = Staging(cache, NAME, "hf://org/repo/m.gguf")
    assert other.lock()

    done = cache.remove((NAME,), {})
    other.unlock()

    assert done.refused == {NAME: "another process is fetching it"}
    assert cache.staging(NAME).exists()


def test_what_is_in_use_stays_and_says_by_whom(cache: WeightsCache) -> None:
    path = filled(cache, NAME)

    done = cache.remove((NAME,), {NAME: "m.0.0 uses it (ready)"})

    assert done.refused == {NAME: "m.0.0 uses it (ready)"}
    assert path.exists()
