"""Records of engines on disk."""

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from llmgw.agent.processes import Identity
from llmgw.agent.records import Record, Records
from llmgw.core.ids import Generation


def record(shard: str = "m.0.0", pid: int = 7) -> Record:
    identity = Identity(pid=pid, start_ticks=123, boot_id="b")
    return Record(shard=shard, generation=Generation(1, 2), process=identity)


def test_what_was_written_is_read_until_it_is_removed(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(record())
    records.write(record(pid=8))

    first = records.read()
    records.remove("m.0.0")
    records.remove("m.0.0")

    assert first == ((record(pid=8),), ())
    assert records.read() == ((), ())


def test_a_file_that_is_no_record_hides_no_other_and_is_set_aside(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(record())
    (tmp_path / "a.json").write_bytes(b"\xff\0")
    (tmp_path / "b.json").write_text('{"shard": "m.0.0"}')
    (tmp_path / "c.json").mkdir()

    found, problems = records.read()
    again = records.read()

    assert found == (record(),)
    assert len(problems) == 3
    assert again == ((record(),), ())
    assert (tmp_path / "a.unreadable").exists()


def test_a_record_of_a_later_version_is_read_for_what_is_known(tmp_path: Path) -> None:
    later = msgspec.to_builtins(record()) | {"version": 9, "spec": {"more": 1}}
    (tmp_path / "m.json").write_bytes(msgspec.json.encode(later))

    [found], _ = Records(tmp_path).read()

    assert found.process == record().process


def test_a_record_half_written_when_the_agent_died_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "m.0.0.new").write_text('{"vers')

    assert Records(tmp_path).read() == ((), ())


@given(data=st.binary(max_size=200))
def test_no_bytes_in_a_record_raise(tmp_path_factory: object, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("records")  # type: ignore[attr-defined]
    (folder / "m.json").write_bytes(data)

    records, problems = Records(folder).read()

    assert len(records) + len(problems) == 1
