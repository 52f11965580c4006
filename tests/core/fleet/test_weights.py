import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.core.fleet.weights import (
    HubFile,
    HubRepo,
    LocalFile,
    Progress,
    WebFile,
    cache_name,
    cache_name_of,
    is_cache_name,
    parts_of,
    read_source,
    shown_source,
)

SHA = "ab" * 32


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("file:///srv/models/gemma.gguf", LocalFile("/srv/models/gemma.gguf")),
        ("hf://org/repo/model.gguf", HubFile("org/repo", "model.gguf")),
        ("hf://org/repo@v1.0/sub/model.gguf", HubFile("org/repo", "sub/model.gguf", "v1.0")),
        ("hf://org/repo", HubRepo("org/repo")),
        ("hf://org/repo@abc123", HubRepo("org/repo", "abc123")),
        ("https://host/a/model.gguf", WebFile("https://host/a/model.gguf")),
        ("https://bucket.s3.host/m.gguf?X-Sig=1", WebFile("https://bucket.s3.host/m.gguf?X-Sig=1")),
        (f"https://host/m.gguf#sha256={SHA}", WebFile("https://host/m.gguf", SHA)),
        ("http://127.0.0.1:80/m.gguf", WebFile("http://127.0.0.1:80/m.gguf")),
        ("http://[::1]:80/m.gguf", WebFile("http://[::1]:80/m.gguf")),
        ("http://localhost/m.gguf", WebFile("http://localhost/m.gguf")),
    ],
)
def test_a_source_is_read_as_what_it_is(text: str, source: object) -> None:
    assert read_source(text) == source


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/srv/gemma.gguf", "have no scheme; write file:///srv/gemma.gguf"),
        ("gemma.gguf", "have no scheme; write file:///path/on/the/node"),
        ("file://gemma.gguf", "need an absolute path: three slashes"),
        ("file:///srv/a\0b", "hold a NUL byte"),
        ("ftp://host/file", "ftp:// cannot be fetched; write hf://, https:// or file:///its/path"),
        ("s3://bucket/file", "s3:// cannot be fetched"),
        ("hf://repo", "name no repository of the hub; write hf://org/repo/file.gguf"),
        ("hf://org/", "name no repository of the hub"),
        ("hf://../repo/file", "name no repository of the hub"),
        ("hf://org/repo/../../etc/passwd", "is no path within a repository"),
        ("hf://org/repo//file", "is no path within a repository"),
        ("hf://org/repo@/file", "'' is no revision"),
        ("http://example.com/m.gguf", "write https://"),
        ("http://127.0.0.1.evil.example/m.gguf", "write https://"),
        ("https://user:pw@host/m.gguf", "hold a password"),
        ("https:///m.gguf", "are no address"),
        ("https://host:port/m.gguf", "are no address"),
        ("https://host/", "name no file"),
        ("https://host:99999/m.gguf", "are no address"),
        ("https://host", "are no address"),
        ("https://host/a b.gguf", "are no address"),
        ("https://host/m.gguf#part", "only sha256=<64 hex digits> has a meaning"),
        ("hf://org/repo/m-00002-of-00003.gguf", "are part 2 of 3; name the first, it stands for all"),
        ("file:///m-00002-of-00003.gguf", "are part 2 of 3; name the first"),
        ("hf://org/repo/m-00004-of-00003.gguf", "no file is part 4 of 3"),
        ("https://host/m-00001-of-00002.gguf?sig=1", "one hash or signature cannot be of 2 files"),
        ("https://host/" + "x" * 5000, "are longer than 4096 characters"),
    ],
)
def test_what_is_no_source_says_what_to_write_instead(text: str, said: str) -> None:
    problem = read_source(text)

    assert isinstance(problem, str)
    assert said in problem


def test_a_refusal_never_shows_a_password_or_a_signature() -> None:
    problems = [
        read_source("https://user:hunter2@host/m.gguf"),
        read_source("http://example.com/m?sig=hunter2"),
    ]

    assert all(isinstance(problem, str) and "hunter2" not in problem for problem in problems)
    assert shown_source("https://host/m.gguf?sig=hunter2") == "https://host/m.gguf?..."


def test_a_cache_name_hangs_on_the_source_alone_and_keeps_what_engines_look_at() -> None:
    name = cache_name_of("hf://org/repo/model.GGUF")

    assert name == cache_name_of("hf://org/repo@main/model.GGUF")
    assert name != cache_name_of("hf://org/repo@v2/model.GGUF")
    assert name is not None
    assert name.endswith(".gguf")
    assert len(name) == 32 + len(".gguf")


def test_a_split_file_is_one_name_that_stands_for_all_its_parts() -> None:
    name = cache_name_of("hf://org/repo/model-00001-of-00003.gguf") or ""

    stem = name.removesuffix("-00001-of-00003.gguf")
    assert len(stem) == 32
    assert parts_of(name) == tuple(f"{stem}-0000{number}-of-00003.gguf" for number in (1, 2, 3))
    assert parts_of("a.gguf") == ("a.gguf",)
    assert parts_of("a-00002-of-00003.gguf") == ("a-00002-of-00003.gguf",)


def test_a_file_never_gets_the_name_of_a_folder_or_of_what_lies_beside_a_download() -> None:
    names = [
        cache_name_of(f"https://host/model{ending}") for ending in (".repo", ".part", ".json", "", ".tar.gz")
    ]

    assert [name and name[32:] for name in names] == ["", "", "", "", ".gz"]
    assert (cache_name_of("hf://org/repo") or "").endswith(".repo")
    assert cache_name_of("file:///srv/m.gguf") is None
    assert cache_name_of("nonsense") is None


@given(
    st.text(max_size=60), st.sampled_from(["hf://org/", "https://host/", "hf://org/repo/", "http://[::1]/"])
)
def test_whatever_is_read_as_remote_has_a_cache_name_that_is_known_as_one(rest: str, before: str) -> None:
    source = read_source(before + rest)

    assert isinstance(source, str) or is_cache_name(cache_name(source) or "")


@pytest.mark.parametrize(
    "name",
    [
        *("..", ".", "", "gemma.gguf", "a/b"),
        *("ab" * 16 + "/..", "AB" * 16, "ab" * 16 + "\n"),
        *("ab" * 16 + ".json", "ab" * 16 + ".part"),
    ],
)
def test_other_names_are_no_cache_names(name: str) -> None:
    assert not is_cache_name(name)


@pytest.mark.parametrize(
    ("total_bytes", "rate", "text"),
    [
        (None, None, "1.0 MiB"),
        (4 * 2**20, None, "1.0 MiB of 4.0 MiB"),
        (None, 2.0**20, "1.0 MiB, 1.0 MiB/s"),
        (4 * 2**20, 2.0**20, "1.0 MiB of 4.0 MiB, 1.0 MiB/s, 3 s left"),
    ],
)
def test_time_is_left_only_where_the_whole_is_known(
    total_bytes: int | None, rate: float | None, text: str
) -> None:
    progress = Progress(cache_name="c", done_bytes=2**20, total_bytes=total_bytes, rate=rate)

    assert str(progress) == text
