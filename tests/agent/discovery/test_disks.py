"""Filesystems by device."""

from pathlib import Path

import pytest

from llmgw.agent.discovery.disks import Disks, Look, group, is_shared, mount_of, parse_mountinfo

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
