import json
import os
from pathlib import Path

import pytest

from llmgw.agent.discovery.disks import Mount
from llmgw.agent.holdings import MOST_ENTRIES, cached, found_in, named, placed
from llmgw.agent.weights_cache import WeightsCache
from llmgw.core.fleet.weights import Holding, cache_name_of

FILE = "hf://org/repo/m.gguf"
SET = "hf://org/repo/s-00001-of-00002.gguf"
NAME, SET_NAME = cache_name_of(FILE) or "", cache_name_of(SET) or ""


def made(path: Path, size: int = 10) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))
    return path


def seen(holdings: tuple[Holding, ...]) -> list[tuple[object, ...]]:
    return [(h.path, h.source, h.cache_name, h.size_bytes, h.complete, h.files) for h in holdings]


def test_the_cache_shows_whole_weights_unfinished_ones_and_a_strangers_file(tmp_path: Path) -> None:
    made(tmp_path / NAME)
    made(tmp_path / f"{NAME}.json")
    made(tmp_path / SET_NAME, 3)
    made(tmp_path / SET_NAME.replace("-00001-", "-00002-"), 4)
    partial = cache_name_of("hf://org/repo/p.gguf") or ""
    made(tmp_path / f"{partial}.part" / "files" / f"{partial}.partial", 7)
    made(tmp_path / "own.gguf", 5)

    found = cached(WeightsCache(tmp_path), {NAME: FILE})

    assert sorted(seen(found), key=str) == sorted(
        [
            (str(tmp_path / NAME), FILE, NAME, 10, True, 1),
            (str(tmp_path / SET_NAME), None, SET_NAME, 7, True, 2),
            (str(tmp_path / f"{partial}.part"), None, partial, 7, False, 1),
            (str(tmp_path / "own.gguf"), None, None, 5, True, 1),
        ],
        key=str,
    )


def test_a_split_file_that_lost_a_part_is_no_weights(tmp_path: Path) -> None:
    made(tmp_path / SET_NAME.replace("-00001-", "-00002-"), 4)

    [found] = cached(WeightsCache(tmp_path), {})

    assert (found.cache_name, found.complete, found.size_bytes) == (SET_NAME, False, 4)


def test_a_cache_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert cached(WeightsCache(tmp_path / "none"), {}) == ()


def test_a_folder_shows_its_files_split_ones_once_and_whole_models(tmp_path: Path) -> None:
    made(tmp_path / "a.gguf")
    made(tmp_path / "empty.gguf", 0)
    for number in (1, 2):
        made(tmp_path / f"sub/b-0000{number}-of-00002.gguf")
    made(tmp_path / "sub/broken-00001-of-00002.gguf")
    made(tmp_path / "whole/config.json")
    made(tmp_path / "whole/model.safetensors")
    made(tmp_path / "partly/config.json")
    made(tmp_path / "partly/model-1.safetensors")
    index = {"weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
    (tmp_path / "partly/model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "nothing").mkdir()
    made(tmp_path / "cache/c.gguf")

    found = found_in(tmp_path, {}, skip=tmp_path / "cache").holdings

    assert sorted((Path(h.path).name, h.files) for h in found) == [
        ("a.gguf", 1),
        ("b-00001-of-00002.gguf", 2),
        ("whole", 2),
    ]


def test_a_folder_holds_a_source_under_its_repository_or_its_cache_name(tmp_path: Path) -> None:
    path = made(tmp_path / "org/repo/m.gguf")
    other = "https://host/x.bin"
    cached_elsewhere = made(tmp_path / (cache_name_of(other) or ""))
    sources = {NAME: FILE, cache_name_of(other) or "": other, "x": "hf://org/repo@v2/m.gguf"}

    found = found_in(tmp_path, sources, skip=tmp_path / "cache").holdings

    assert {h.path: h.source for h in found} == {str(path): FILE, str(cached_elsewhere): other}


def test_what_a_catalog_names_by_its_path_is_there_only_when_it_is_whole_and_not_empty(
    tmp_path: Path,
) -> None:
    whole = made(tmp_path / "m.gguf")
    made(tmp_path / "empty.gguf", 0)
    made(tmp_path / "s-00001-of-00002.gguf")
    (tmp_path / "folder").mkdir()

    found = named(f"file://{whole}")

    assert found is not None
    assert (found.path, found.source, found.size_bytes) == (str(whole), f"file://{whole}", 10)
    for name in ("empty.gguf", "s-00001-of-00002.gguf", "folder", "none.gguf"):
        assert named(f"file://{tmp_path / name}") is None
    assert named(FILE) is None


def test_what_lies_on_a_network_filesystem_says_on_which() -> None:
    mounts = (
        Mount(device="8:1", point="/", kind="ext4", source="/dev/sda1"),
        Mount(device="0:50", point="/mnt/m", kind="nfs4", source="filer:/m"),
    )

    shared = placed(Holding(path="/mnt/m/a.gguf"), mounts)
    own = placed(Holding(path="/srv/a.gguf"), mounts)

    assert (shared.mount, shared.device, shared.shared) == ("/mnt/m", "filer:/m", True)
    assert (own.mount, own.device, own.shared) == ("/", "/dev/sda1", False)


def test_a_file_whose_name_is_no_text_is_shown_as_text_can(tmp_path: Path) -> None:
    made(Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.gguf")))

    [found] = found_in(tmp_path, {}, skip=tmp_path / "cache").holdings

    assert found.path == f"{tmp_path}/\N{REPLACEMENT CHARACTER}.gguf"


def test_a_folder_that_is_not_there_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        found_in(tmp_path / "none", {}, skip=tmp_path / "cache")


def test_a_folder_too_large_to_walk_says_that_there_may_be_more(tmp_path: Path) -> None:
    made(tmp_path / "first" / "m.gguf")
    (tmp_path / "first" / "sub").mkdir()
    for number in range(MOST_ENTRIES):
        (tmp_path / "first" / "sub" / str(number)).touch()

    found = found_in(tmp_path, {}, skip=tmp_path / "cache")

    assert [holding.path for holding in found.holdings] == [str(tmp_path / "first" / "m.gguf")]
    assert found.problem is not None
    assert found.problem.startswith("it has more than 20000 entries, and what lies behind them")


def test_links_that_lead_in_circles_end(tmp_path: Path) -> None:
    made(tmp_path / "m.gguf")
    (tmp_path / "again").symlink_to(tmp_path)
    (tmp_path / "self.gguf").symlink_to("self.gguf")

    found = found_in(tmp_path, {}, skip=tmp_path / "cache")

    assert [holding.path for holding in found.holdings] == [str(tmp_path / "m.gguf")]
    assert found.problem is None
