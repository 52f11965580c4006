from pathlib import Path

import pytest

from llmgw.agent.fetcher.faults import CannotFetch
from llmgw.agent.fetcher.token import hub_token


def test_the_environment_goes_before_the_file_and_a_new_file_needs_no_restart(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("hf_one\n")
    by_file = hub_token({}, str(path))

    first = by_file()
    path.write_text("hf_two")

    assert (first, by_file()) == ("hf_one", "hf_two")
    assert hub_token({"HF_TOKEN": "hf_env"}, str(path))() == "hf_env"
    assert hub_token({}, None)() is None


@pytest.mark.parametrize("content", [b"two words", b"\xff\xfe", "schlüssel".encode()])
def test_a_token_that_is_none_is_an_error_that_does_not_show_it(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "token"
    path.write_bytes(content)

    with pytest.raises(CannotFetch) as caught:
        hub_token({}, str(path))()

    assert "token" in str(caught.value)
    assert "words" not in str(caught.value)


def test_a_token_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CannotFetch) as caught:
        hub_token({}, str(tmp_path / "none"))()

    assert f"weights.token_file {tmp_path / 'none'}" in str(caught.value)
