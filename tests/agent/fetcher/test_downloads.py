"""Downloads from a server that is slow, breaks off, lies and refuses: the right file, or words that say why not."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import msgspec
import pytest
from fakes.small_fetcher import SmallFetcher
from fakes.waiting import until
from fakes.weights_server import COMMIT, Manner, WeightsServer

from llmgw.agent.fetcher.staging import Draft
from llmgw.core.fleet.weights import cache_name_of

CONTENT = random.Random(1).randbytes(1_000_000)
SHA = hashlib.sha256(CONTENT).hexdigest()
HUB_PATH = f"/org/repo/resolve/{COMMIT}/m.gguf"


@pytest.fixture
def server() -> Iterator[WeightsServer]:
    with WeightsServer() as server:
        yield server


@pytest.fixture
async def small(tmp_path: Path, server: WeightsServer) -> AsyncIterator[SmallFetcher]:
    async with SmallFetcher(tmp_path / "cache", hub=server.url) as small:
        yield small


def said(found: Path | str) -> str:
    assert isinstance(found, str), found
    return found


async def test_a_file_of_the_hub_is_fetched_at_its_commit_and_lies_under_its_cache_name(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)

    found = await small.fetched(source)

    assert found == small.place(source)
    assert small.place(source).read_bytes() == CONTENT
    assert [r.path for r in server.gets()] == [HUB_PATH]
    assert small.names() == sorted([cache_name_of(source), f"{cache_name_of(source)}.json"])


async def test_what_is_in_the_cache_is_not_asked_for_again(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)
    await small.fetched(source)
    server.requests.clear()

    found = await small.fetched(source)

    assert found == small.place(source)
    assert server.requests == []


async def test_eight_who_want_one_file_make_one_download_and_all_see_its_progress(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(pace_s=0.1))

    tickets = [small.join(source) for _ in range(8)]
    await until(lambda: all(ticket.progress.done_bytes > 0 for ticket in tickets))
    seen = [ticket.progress for ticket in tickets]
    found = await asyncio.gather(*(ticket.outcome for ticket in tickets))
    for ticket in tickets:
        ticket.leave()

    assert len(server.gets()) == server.most_open == 1
    assert {progress.total_bytes for progress in seen} == {len(CONTENT)}
    assert len({progress.done_bytes for progress in seen}) == 1
    assert set(found) == {small.place(source)}


async def test_a_connection_that_is_reset_is_gone_on_with_where_it_broke(
    server: WeightsServer, small: SmallFetcher
) -> None:
    cuts = [Manner(cut_after=300_000), Manner(cut_after=1), Manner(cut_after=200_000)]
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, *cuts)

    await small.fetched(source)

    assert small.place(source).read_bytes() == CONTENT
    assert [r.range for r in server.gets()] == [
        None,
        "bytes=300000-",
        "bytes=300001-",
        "bytes=500001-",
    ]


async def test_a_stalled_connection_is_given_up_for_another(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(stall_after=400_000))

    await small.fetched(source)

    assert small.place(source).read_bytes() == CONTENT
    assert [r.range for r in server.gets()] == [None, "bytes=400000-"]


async def test_fetching_fails_when_no_byte_came_for_too_long_and_a_later_try_goes_on(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(stall_after=400_000))
    server.manner = Manner(stall_after=0)

    failed = await small.fetched(source)
    server.manner = Manner()
    found = await small.fetched(source)

    assert "no byte came for 1 s" in said(failed)
    assert "fell silent" in said(failed)
    assert found == small.place(source)
    assert small.place(source).read_bytes() == CONTENT
    assert server.gets()[-1].range == "bytes=400000-"


async def test_nobody_listening_is_told_in_words_with_the_address(small: SmallFetcher) -> None:
    failed = said(await small.fetched("http://127.0.0.1:9/m.gguf"))

    assert "no byte came for 1 s: 127.0.0.1:9: " in failed


async def test_trouble_that_passes_is_shown_while_it_lasts(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(cut_after=1000))
    server.manner = Manner(status=503)

    ticket = small.join(source)
    trouble = await until(lambda: ticket.trouble)
    server.manner = Manner()
    await ticket.outcome
    ticket.leave()

    assert "trying again" in trouble
    assert ticket.trouble is None


async def test_a_wrong_hash_is_an_error_that_names_both_and_nothing_of_the_file_stays(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, sha256="ab" * 32)

    failed = said(await small.fetched(source))

    assert f"sha256:{SHA}, wanted sha256:{'ab' * 32}; it was removed" in failed
    assert not small.place(source).exists()
    assert list(small.cache.folder.rglob("*.partial")) == []


async def test_a_partial_that_was_spoilt_is_thrown_away_and_the_whole_fetched_once_more(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(cut_after=400_000))
    server.manner = Manner(status=404)
    await small.fetched(source)
    (partial,) = small.cache.folder.rglob("*.partial")
    partial.write_bytes(bytes(400_000))
    server.manner = Manner()

    await small.fetched(source)

    assert small.place(source).read_bytes() == CONTENT
    assert [r.range for r in server.gets()][-2:] == ["bytes=400000-", None]


async def test_a_sha256_that_the_catalog_names_is_checked(server: WeightsServer, small: SmallFetcher) -> None:
    url = server.serve("/m.gguf", CONTENT)

    right = await small.fetched(f"{url}#sha256={SHA}")
    wrong = await small.fetched(f"{url}#sha256={'cd' * 32}")

    assert right == small.place(f"{url}#sha256={SHA}")
    assert f"wanted sha256:{'cd' * 32}" in said(wrong)


async def test_a_sha256_in_an_answers_head_is_checked(server: WeightsServer, small: SmallFetcher) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(headers={"x-amz-checksum-sha256": "q" * 43 + "="}))

    failed = await small.fetched(url)

    assert "it was removed" in said(failed)


async def test_a_server_that_says_too_much_and_breaks_off_is_not_asked_for_ever(
    server: WeightsServer, small: SmallFetcher
) -> None:
    url = server.serve("/m.gguf", CONTENT)
    server.manner = Manner(says=len(CONTENT) + 500, no_range=True)
    server.head_status = 405

    failed = said(await small.fetched(url))

    assert "broke off 4 times" in failed
    assert not small.place(url).exists()


async def test_a_server_that_says_other_than_the_hub_is_an_error_with_both_lengths(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(body=CONTENT[:1000]))

    failed = said(await small.fetched(source))

    assert f"its source says {len(CONTENT)} bytes, and the server would send 1000" in failed


async def test_without_a_length_there_is_no_total_and_the_file_is_right(
    server: WeightsServer, small: SmallFetcher
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(no_length=True, pace_s=0.05))
    server.head_status = 405

    ticket = small.join(url)
    await until(lambda: ticket.progress.done_bytes)
    seen = ticket.progress
    await ticket.outcome
    ticket.leave()

    assert seen.total_bytes is None
    assert small.place(url).read_bytes() == CONTENT


async def test_a_200_to_a_range_begins_at_the_beginning(server: WeightsServer, small: SmallFetcher) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(cut_after=300_000), Manner(no_range=True))

    await small.fetched(url)

    assert small.place(url).read_bytes() == CONTENT
    assert [r.range for r in server.gets()] == [None, "bytes=300000-"]


async def test_a_206_of_something_else_begins_at_the_beginning(
    server: WeightsServer, small: SmallFetcher
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(cut_after=300_000), Manner(starts=5), Manner(cut_after=9))

    await small.fetched(url)

    assert small.place(url).read_bytes() == CONTENT
    assert [r.range for r in server.gets()] == [None, "bytes=300000-", None, "bytes=9-"]


async def test_a_416_for_what_is_whole_already_is_no_fault(
    server: WeightsServer, small: SmallFetcher
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(no_length=True, cut_after=len(CONTENT)))
    server.head_status = 405

    await small.fetched(url)

    assert small.place(url).read_bytes() == CONTENT
    assert [r.range for r in server.gets()] == [None, f"bytes={len(CONTENT)}-"]


async def test_a_416_that_says_otherwise_begins_at_the_beginning(
    server: WeightsServer, small: SmallFetcher
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(cut_after=300_000), Manner(total=10))

    await small.fetched(url)

    assert small.place(url).read_bytes() == CONTENT
    assert [r.range for r in server.gets()] == [None, "bytes=300000-", None]


async def test_a_file_that_changed_at_its_source_meanwhile_is_begun_anew(
    server: WeightsServer, small: SmallFetcher
) -> None:
    url = server.serve("/m.gguf", CONTENT, Manner(cut_after=300_000), Manner(status=404), etag="v1")
    await small.fetched(url)
    changed = CONTENT[::-1]
    server.serve("/m.gguf", changed, etag="v2")

    await small.fetched(url)

    assert small.place(url).read_bytes() == changed
    assert server.gets()[-1].headers["if-range"] == '"v1"'


async def test_a_redirect_to_another_host_is_followed_without_the_token(
    server: WeightsServer, small: SmallFetcher
) -> None:
    with WeightsServer() as store:
        target = store.serve("/blob", CONTENT)
        source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(redirect=target + "?sig=secret"))
        small.token = server.token = "hf_abcdefgh"

        await small.fetched(source)

    assert small.place(source).read_bytes() == CONTENT
    assert server.gets()[0].headers["authorization"] == "Bearer hf_abcdefgh"
    assert "authorization" not in store.gets()[0].headers


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("/m.gguf", "redirects more than 10 times"),
        ("http://192.0.2.1/m.gguf", "where no redirect of it may lead"),
        ("file:///etc/passwd", "where no redirect of it may lead"),
    ],
)
async def test_redirects_in_a_circle_or_to_where_they_may_not_lead_are_refused(
    server: WeightsServer, small: SmallFetcher, target: str, words: str
) -> None:
    url = server.serve("/m.gguf", CONTENT)
    server.manner = Manner(redirect=target)

    failed = said(await small.fetched(url))

    assert words in failed


async def test_a_gated_repository_says_what_to_set_and_its_token_opens_it(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)
    server.token = "hf_abcdefgh"

    without = said(await small.fetched(source))
    small.token = "hf_wrongwrong"
    wrong = said(await small.fetched(source))
    small.token = "hf_abcdefgh"
    found = await small.fetched(source)

    assert "set HF_TOKEN for the agent, or weights.token_file in its agent.yaml" in without
    assert "if the repository is gated, ask for access" in without
    assert "the agent's token (HF_TOKEN or weights.token_file) does not open it" in wrong
    assert "hf_" not in wrong
    assert found == small.place(source)


async def test_a_file_that_is_not_there_is_an_error_at_once(small: SmallFetcher) -> None:
    with WeightsServer() as other:
        failed = said(await small.fetched(f"{other.url}/none.gguf?sig=secret"))

    assert f"{other.url}/none.gguf has no such file (it answers 404)" in failed
    assert "secret" not in failed


async def test_the_parts_of_a_split_file_are_fetched_as_one_and_the_first_lies_there_last(
    server: WeightsServer, small: SmallFetcher
) -> None:
    parts = [CONTENT[:10], CONTENT[10:30], CONTENT[30:100]]
    for number, part in enumerate(parts, start=1):
        server.serve_hub("org/repo", f"m-0000{number}-of-00003.gguf", part)
    source = "hf://org/repo/m-00001-of-00003.gguf"

    found = await small.fetched(source)

    stem = (cache_name_of(source) or "")[:32]
    assert found == small.cache.folder / f"{stem}-00001-of-00003.gguf"
    assert [(small.cache.folder / f"{stem}-0000{n}-of-00003.gguf").read_bytes() for n in (1, 2, 3)] == parts


async def test_a_set_with_a_part_missing_is_not_whole_and_is_completed(
    server: WeightsServer, small: SmallFetcher
) -> None:
    for number in (1, 2):
        server.serve_hub("org/repo", f"m-0000{number}-of-00002.gguf", CONTENT[: number * 10])
    source = "hf://org/repo/m-00001-of-00002.gguf"
    await small.fetched(source)
    name = cache_name_of(source) or ""
    second = small.cache.folder / name.replace("-00001-", "-00002-")
    second.unlink()

    missing = small.cache.find(name)
    await small.fetched(source)

    assert missing is None
    assert second.read_bytes() == CONTENT[:20]


async def test_a_whole_repository_becomes_a_folder_without_second_copies(
    server: WeightsServer, small: SmallFetcher
) -> None:
    files = {
        "config.json": b"{}",
        "model.safetensors": CONTENT,
        "pytorch_model.bin": b"x",
        ".gitattributes": b"y",
        "sub/tokenizer.json": b"[]",
    }
    source = server.serve_repo("org/repo", files, large=frozenset({"model.safetensors"}))

    found = await small.fetched(source)

    assert found == small.place(source)
    held = {
        str(path.relative_to(small.place(source))): path.read_bytes()
        for path in small.place(source).rglob("*")
        if path.is_file()
    }
    assert held == {name: files[name] for name in ("config.json", "model.safetensors", "sub/tokenizer.json")}


async def test_a_small_file_whose_git_hash_is_wrong_is_refused(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_repo("org/repo", {"config.json": b"{}"})
    server.files[f"/org/repo/resolve/{COMMIT}/config.json"] = b"[]"

    failed = said(await small.fetched(source))

    assert "git-sha1:" in failed
    assert "(config.json)" in failed


async def test_who_leaves_alone_ends_nothing_and_the_last_ends_the_download_and_leaves_its_partial(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT, Manner(pace_s=0.1))

    first, second = small.join(source), small.join(source)
    await until(lambda: second.progress.done_bytes)
    first.leave()
    went_on = not second.outcome.done()
    second.leave()
    await asyncio.wait([second.outcome])
    again = await small.fetched(source)

    assert went_on
    assert second.outcome.cancelled()
    assert again == small.place(source)
    assert server.gets()[-1].range is not None


async def test_a_partial_that_nobody_can_read_is_no_hindrance(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)
    staging = small.cache.staging(cache_name_of(source) or "")
    (staging / "files").mkdir(parents=True)
    (staging / "lock").write_text("somebody long gone")
    (staging / "draft.json").write_bytes(b"\0nonsense")
    (staging / "files" / f"{cache_name_of(source)}.partial").write_bytes(b"nonsense")

    found = await small.fetched(source)

    assert found == small.place(source)
    assert small.place(source).read_bytes() == CONTENT


async def test_too_little_room_is_told_before_the_first_byte_with_both_numbers(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", b"x")
    server._hub["/org/repo/resolve/main/m.gguf"]["x-linked-size"] = str(2**58)

    failed = said(await small.fetched(source))

    assert f"{2**58} bytes more are needed, and filesystem " in failed
    assert "bytes free" in failed
    assert server.gets() == []


async def test_a_proxy_of_the_surroundings_is_not_asked_for_what_this_machine_has(
    server: WeightsServer, small: SmallFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    url = server.serve("/m.gguf", CONTENT)

    assert await small.fetched(url) == small.place(url)


async def test_whoever_leaves_at_any_moment_leaves_no_lock_and_no_file_that_blocks_the_next(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)
    server.manner = Manner(pace_s=0.01)
    for steps in range(25):
        ticket = small.join(source)
        await asyncio.wait([ticket.outcome], timeout=steps / 1000)
        ticket.leave()

    found = await small.fetched(source)

    assert found == small.place(source)
    assert small.place(source).read_bytes() == CONTENT
    await until(lambda: server.open == 0)
    assert small.fetcher.fetching() == ()


async def test_what_died_while_its_parts_were_moved_is_finished_by_the_next(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = "hf://org/repo/m-00001-of-00002.gguf"
    name = cache_name_of(source) or ""
    second = name.replace("-00001-", "-00002-")
    (small.cache.folder / second).write_bytes(b"two")
    files = small.cache.staging(name) / "files"
    files.mkdir(parents=True)
    (files / name).write_bytes(b"one")
    draft = Draft(source=source, boot="an earlier one", moving=True)
    (small.cache.staging(name) / "draft.json").write_bytes(msgspec.json.encode(draft))

    found = await small.fetched(source)

    assert found == small.cache.folder / name
    assert found.read_bytes() == b"one"
    assert server.requests == []
    assert not small.cache.staging(name).exists()


async def test_a_download_that_nothing_came_of_leaves_nothing_behind(
    server: WeightsServer, small: SmallFetcher
) -> None:
    source = server.serve_hub("org/repo", "m.gguf", CONTENT)
    server.token = "hf_right"

    failed = said(await small.fetched(source))
    await until(lambda: small.names() == [])

    assert "the hub answers 401" in failed


async def test_a_cache_that_is_no_folder_is_told_with_what_to_do(tmp_path: Path) -> None:
    source = "hf://org/repo/m.gguf"
    async with SmallFetcher(tmp_path / "cache") as small:
        small.cache.folder.rmdir()
        small.cache.folder.symlink_to(tmp_path / "nowhere")
        failed = said(await small.fetched(source))

    assert failed == (
        f"weights {source}: the cache {tmp_path / 'cache'} cannot be used: it is no folder, or a link that leads "
        "nowhere; have a folder there that the agent may write, or name another as weights.cache in agent.yaml"
    )
