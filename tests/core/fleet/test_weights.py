import pytest

from llmgw.core.fleet.weights import LocalFile, read_source


def test_a_file_url_with_an_absolute_path_is_a_local_file() -> None:
    assert read_source("file:///srv/models/gemma.gguf") == LocalFile("/srv/models/gemma.gguf")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("/srv/gemma.gguf", "have no scheme; write file:///srv/gemma.gguf"),
        ("gemma.gguf", "have no scheme; write file:///path/on/the/node"),
        ("hf://org/repo/file", "hf:// cannot be fetched by this version"),
        ("file://gemma.gguf", "need an absolute path: three slashes"),
        ("file:///srv/a\0b", "hold a NUL byte"),
    ],
)
def test_what_is_no_source_says_what_to_write_instead(text: str, said: str) -> None:
    problem = read_source(text)

    assert isinstance(problem, str)
    assert said in problem
