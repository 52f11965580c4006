"""The agent's folder."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.state_dir import StateDir, file_name
from llmgw.core.errors import BadInput, Conflict


@given(identity=st.text(max_size=400))
def test_any_id_makes_a_file_name_that_is_no_path(identity: str) -> None:
    name = file_name(identity)

    assert name
    assert "/" not in name
    assert "\0" not in name
    assert not name.startswith(".")
    assert len(name.encode()) <= 200


@given(one=st.text(max_size=300), other=st.text(max_size=300))
def test_two_ids_never_share_a_file(one: str, other: str) -> None:
    assert (file_name(one) == file_name(other)) == (one == other)


def test_a_usual_id_can_be_read_off_its_file() -> None:
    assert file_name("gemma-270m.0.0") == "gemma-270m.0.0"
    assert file_name("org/model:x.0.0") == "org%2Fmodel%3Ax.0.0"


def test_a_second_holder_is_told_the_pid_of_the_first(tmp_path: Path) -> None:
    first, second = StateDir(str(tmp_path)), StateDir(str(tmp_path))

    with (
        first.held(),
        pytest.raises(Conflict, match=r"held by another llmgw agent, pid \d+; stop that one"),
        second.held(),
    ):
        pass
    with second.held():
        pass


def test_a_folder_that_cannot_be_made_is_named_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(BadInput, match="--state-dir"):
        StateDir(str(tmp_path / "file" / "state")).make()


def test_a_folder_is_the_same_by_whatever_way_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)

    assert StateDir(str(tmp_path / "link" / "x")).path == StateDir(str(tmp_path / "y" / ".." / "x")).path


def test_a_folder_remembers_the_name_of_its_node_and_tells_the_last_one_where_engines_are_recorded(
    tmp_path: Path,
) -> None:
    folder = StateDir(str(tmp_path))
    folder.make()

    first, same = folder.called("n1"), folder.called("n1")
    without_engines = folder.called("n2")
    (folder.records / "m.0.0").write_text("{}")
    renamed, again = folder.called("n3"), folder.called("n3")

    assert (first, same, without_engines) == (None, None, None)
    assert (renamed, again) == ("n2", None)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs", "logs", "node", "records"]


def test_a_folder_that_cannot_be_written_keeps_no_name_and_stops_nobody(tmp_path: Path) -> None:
    folder = StateDir(str(tmp_path))
    folder.make()
    folder.node.mkdir()
    (folder.node / "in-the-way").touch()

    assert folder.called("n1") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["jobs", "logs", "node", "records"]
