import os
from pathlib import Path

from fakes.gguf_files import GgufFile

from llmgw.agent.shapes import read_shape
from llmgw.core.fleet.model_shape import ModelShape


def a_file(path: Path, tokens: int) -> Path:
    file = GgufFile(path, "llama", block_count=2, embedding_length=64, attention__head_count=4)
    file.vocabulary(tokens).tensor("token_embd.weight", tokens, 256).bytes()
    with path.open("ab") as written:
        # The tensors' data, which nobody reads.
        written.truncate(path.stat().st_size + 2**30)
    return path


async def test_a_header_longer_than_the_first_bytes_is_read_to_its_end_and_no_further(tmp_path: Path) -> None:
    path = a_file(tmp_path / "model.gguf", tokens=150_000)

    found = await read_shape(path)

    assert isinstance(found, ModelShape)
    assert (found.vocabulary, found.input_bytes) == (150_000, 150_000 * 144)


async def test_a_file_that_ends_within_its_header_says_so(tmp_path: Path) -> None:
    path = a_file(tmp_path / "model.gguf", tokens=1000)
    os.truncate(path, 5000)

    assert await read_shape(path) == f"{path} ends within its header, after 5000 bytes"


async def test_what_is_no_model_and_what_cannot_be_read_say_why(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no model")

    assert await read_shape(text) == f"{text}: wanted a file that begins with GGUF, found b'no m'"
    assert await read_shape(tmp_path) == f"{tmp_path} cannot be read: Is a directory"
    assert (
        await read_shape(tmp_path / "gone")
        == f"{tmp_path / 'gone'} cannot be read: No such file or directory"
    )
    assert "embedded null byte" in str(await read_shape(Path("/a\0b")))


async def test_a_file_that_never_answers_is_given_up(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)

    found = await read_shape(pipe, limit_s=0.05)

    assert found == f"{pipe} could not be read within 0.05 s"
    os.close(os.open(pipe, os.O_WRONLY))
