"""Records of engines on disk."""

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from llmgw.agent.processes import Identity
from llmgw.agent.records import MOST_BYTES, VERSION, Later, Record, Records
from llmgw.core.fleet.catalog import Profile
from llmgw.core.fleet.shards import Phase, ShardSpec, ShardState
from llmgw.core.ids import Generation

GENERATION = Generation(1, 2)


def record(shard: str = "m.0.0", pid: int = 7, phase: Phase = Phase.STARTING) -> Record:
    profile = Profile(name="p", engine="fake", weights="file:///w", args=("--x",), env={"A": "b"})
    return Record(
        shard=shard,
        generation=GENERATION,
        process=Identity(pid=pid, start_ticks=123, boot_id="b"),
        spec=ShardSpec(
            shard=shard,
            replica="m.0",
            model="m",
            ordinal=0,
            generation=GENERATION,
            fingerprint=profile.fingerprint(),
            profile=profile,
        ),
        state=ShardState(
            shard=shard, replica="m.0", model="m", generation=GENERATION, phase=phase, port=4000, pid=pid
        ),
        log="/srv/logs/m.0.0.log",
        since_now=12.5,
        health_path="/health",
        limit_s=300.0,
        stop_grace_s=10.0,
    )


def test_what_was_written_is_read_whole_until_it_is_removed(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(record())
    records.write(record(pid=8))

    first = records.read()
    holder = records.holder("m.0.0")
    records.remove("m.0.0")
    records.remove("m.0.0")

    assert (first.records, first.problems) == ((record(pid=8),), ())
    assert holder == record(pid=8).process
    assert records.read().records == ()
    assert records.holder("m.0.0") is None


def test_a_step_is_written_over_the_record_of_the_same_process_only(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(record())
    records.change(record(phase=Phase.READY))

    records.change(record(pid=8, phase=Phase.DRAINING))
    [found] = records.read().records

    assert (found.process.pid, found.state.phase) == (7, Phase.READY)


def test_a_step_that_is_written_late_brings_no_removed_record_back(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(record())
    records.remove("m.0.0")

    records.change(record(phase=Phase.READY))

    assert list(tmp_path.iterdir()) == []


def test_room_that_was_taken_is_no_record_and_is_given_back(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.reserve(record(pid=0))
    reserved = sum(path.stat().st_size for path in tmp_path.iterdir())
    found = records.read().records
    records.write(record(pid=2**22))
    [path] = tmp_path.iterdir()

    assert found == ()
    assert path.stat().st_size <= reserved
    assert records.read().records == (record(pid=2**22),)


def test_room_that_was_taken_for_nothing_is_given_back(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.reserve(record(pid=0))

    records.remove("m.0.0")

    assert list(tmp_path.iterdir()) == []


def test_a_file_that_is_no_record_hides_no_other_and_is_set_aside(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(record())
    (tmp_path / "a.json").write_bytes(b"\xff\0")
    (tmp_path / "b.json").write_text('{"shard": "m.0.0"}')
    (tmp_path / "c.json").mkdir()

    found = records.read()
    again = records.read()

    assert found.records == (record(),)
    assert len(found.problems) == 3
    assert (again.records, again.problems) == ((record(),), ())
    assert (tmp_path / "a.unreadable").exists()


def test_fields_that_a_later_writer_of_this_version_added_are_no_fault(tmp_path: Path) -> None:
    more = msgspec.to_builtins(record()) | {"added": {"more": 1}}
    (tmp_path / "m.0.0.json").write_bytes(msgspec.json.encode(more))

    assert Records(tmp_path).read().records == (record(),)


def test_of_a_record_of_a_later_version_only_shard_and_process_are_read(tmp_path: Path) -> None:
    later = msgspec.to_builtins(record()) | {"version": VERSION + 1, "spec": "retyped"}
    path = tmp_path / "m.0.0.json"
    path.write_bytes(msgspec.json.encode(later))

    found = Records(tmp_path).read()

    assert found.records == ()
    assert found.problems == ()
    assert found.later == (
        Later(
            path=str(path),
            version=VERSION + 1,
            shard="m.0.0",
            generation=GENERATION,
            process=record().process,
        ),
    )


def test_a_record_of_a_later_version_that_says_nothing_known_is_known_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "org%2Fm.0.0.json"
    path.write_text('{"version": 99, "process": 4}')

    assert Records(tmp_path).read().later == (Later(path=str(path), version=99, shard="org/m.0.0"),)


def test_a_record_half_written_when_the_agent_died_is_no_record(tmp_path: Path) -> None:
    (tmp_path / "m.0.0.new").write_text('{"vers')

    assert Records(tmp_path).read().records == ()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_is_said_before_anything_is_launched(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Records(tmp_path / "gone").reserve(record())


@given(
    data=st.binary(max_size=200)
    | st.from_regex(rb'\{"version": ?[0-9]{1,3}(, "shard": "x")?\}', fullmatch=True)
)
def test_no_bytes_in_a_record_raise(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("records")
    (folder / "m.json").write_bytes(data)

    found = Records(folder).read()

    assert len(found.records) + len(found.later) + len(found.problems) == 1


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"process": Identity(pid=2**40, start_ticks=1, boot_id="b")}, "no process has the pid"),
        ({"state": replace(record().state, port=99_999_999)}, "the port of its state cannot be 99999999"),
        ({"state": replace(record().state, host="a b")}, "the host of its state cannot be 'a b'"),
        ({"state": replace(record().state, phase=Phase.READY, port=None)}, "listens nowhere"),
        ({"state": replace(record().state, shard="x.0.0")}, "its state of x.0.0@1.2"),
        ({"spec": replace(record().spec, shard="x.0.0")}, "what was asked for of x.0.0@1.2"),
        ({"generation": Generation(1, 3)}, "it is of m.0.0@1.3"),
    ],
)
def test_a_record_that_cannot_be_true_is_set_aside_and_hides_no_other(
    tmp_path: Path, change: dict[str, object], why: str
) -> None:
    records = Records(tmp_path)
    records.write(record("m.1.0"))
    (tmp_path / "m.0.0.json").write_bytes(msgspec.json.encode(replace(record(), **change)))

    found = records.read()

    assert [one.shard for one in found.records] == ["m.1.0"]
    assert why in found.problems[0]
    assert (tmp_path / "m.0.0.unreadable").exists()


def test_a_copy_of_a_record_under_another_name_is_set_aside(tmp_path: Path) -> None:
    records = Records(tmp_path)
    records.write(record())
    (tmp_path / "m.0.0.bak.json").write_bytes((tmp_path / "m.0.0.json").read_bytes())

    found = records.read()

    assert [one.shard for one in found.records] == ["m.0.0"]
    assert "another name" in found.problems[0]


def test_a_pipe_and_a_huge_file_are_set_aside_and_nobody_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)

    found = Records(tmp_path).read()

    assert [("no plain file" in p, "more than" in p) for p in found.problems] == [
        (False, True),
        (True, False),
    ]
