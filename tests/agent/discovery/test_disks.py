"""Filesystems by device."""

from pathlib import Path

import pytest

from llmgw.agent.discovery.disks import Disks, Look, group, is_shared, mount_of, nearest, parse_mountinfo

MOUNTS = parse_mountinfo((Path(__file__).parents[2] / "fixtures" / "mountinfo.txt").read_text())


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "ext4"),
        ("/srv", "xfs"),
        ("/srvother", "ext4"),
        ("/srv/models/a.gguf", "xfs"),
        ("/mnt/two words/x", "nfs4"),
        ("/mnt/under/x", "fuse.juicefs"),
    ],
)
def test_the_longest_mount_point_holds_a_path_and_of_two_the_later(path: str, kind: str) -> None:
    mount = mount_of(path, MOUNTS)

    assert mount is not None
    assert mount.kind == kind


def test_two_directories_on_one_device_are_one_pool_of_bytes_however_it_is_mounted() -> None:
    looks = (
        Look(name="state", path="/srv/state", total_bytes=10, free_bytes=4),
        Look(name="weights", path="/srv/bound/weights", total_bytes=10, free_bytes=4),
    )

    [only] = group(looks, MOUNTS)

    assert (only.mount, only.kind, only.total_bytes, only.free_bytes) == ("/srv", "xfs", 10, 4)
    assert only.holds == ("state", "weights")


def test_network_filesystems_are_told_apart() -> None:
    looks = (Look(name="state", path="/srv"), Look(name="weights", path="/mnt/lake/models"))

    local, shared = group(looks, MOUNTS)

    assert (local.shared, shared.shared) == (False, True)
    assert is_shared("nfs4")
    assert not is_shared("fuse.fuse-overlayfs")


def test_a_look_that_did_not_answer_leaves_sizes_unknown() -> None:
    [only] = group((Look(name="weights", path="/mnt/lake/models"),), MOUNTS)

    assert (only.total_bytes, only.free_bytes) == (None, None)


async def test_a_missing_directory_is_skipped_and_not_zero(tmp_path: Path) -> None:
    disks = Disks({"state": tmp_path, "weights": tmp_path / "none"})

    found = await disks.filesystems()

    assert found is not None
    assert [filesystem.holds for filesystem in found] == [("state",)]
    assert 0 < (found[0].free_bytes or 0) <= (found[0].total_bytes or 0)


def test_what_is_mounted_is_named_as_the_kernel_names_it() -> None:
    looks = (
        Look(name="a", path="/srv"),
        Look(name="b", path="/mnt/two words/x"),
        Look(name="c", path="/mnt/lake"),
    )

    assert [one.device for one in group(looks, MOUNTS)] == [
        "/dev/sdb1",
        "filer:/export",
        "10.0.0.1@o2ib:/lake",
    ]


@pytest.mark.parametrize(
    ("line", "source"), [("- ext4 none rw", None), ("- ext4", None), ("- nfs4 a\\040b:/c rw", "a b:/c")]
)
def test_a_mount_without_a_name_has_none(line: str, source: str | None) -> None:
    [mount] = parse_mountinfo(f"27 1 254:0 / / rw,relatime {line}\n")

    assert mount.source == source


async def test_filesystems_are_those_of_the_machine_that_is_looked_at(tmp_path: Path) -> None:
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text("27 1 254:0 / / rw - lustre 10.0.0.1@o2ib:/lake rw\n")

    [there] = await Disks({"state": tmp_path}, root=tmp_path).filesystems() or ()
    nothing = await Disks({"state": tmp_path}, root=tmp_path / "empty").filesystems()

    assert (there.kind, there.shared, there.device) == ("lustre", True, "10.0.0.1@o2ib:/lake")
    assert nothing is None


def test_a_folder_that_is_not_made_yet_will_lie_where_the_nearest_above_it_does(tmp_path: Path) -> None:
    assert nearest(tmp_path) == tmp_path
    assert nearest(tmp_path / "a" / "b") == tmp_path
