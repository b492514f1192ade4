"""The disk that forgets: what a sync has brought to the device is there, and what was not synced comes in any shape."""

from __future__ import annotations

import pytest

from odradek.sim.schedules.schedule import Deed, Schedule
from odradek.sim.world.dice import Dice
from odradek.sim.world.disk import PAGE_BYTES, SimDisk

SEEDS = range(200)


def left(disk: SimDisk) -> list[bytes | None]:
    return [disk.crashed(Dice(seed)).read("f") for seed in SEEDS]


def test_what_was_synced_is_kept_once_its_name_is() -> None:
    disk = SimDisk()
    disk.write("f", b"old", flush=True)
    assert {b"old"} == set(left(disk))
    disk.write("f", b"newer")
    assert {b"old", b"newer", b""} <= set(left(disk))
    assert b"newer" == disk.killed().read("f")
    # The bytes alone are not the file of this name.
    disk.sync("f")
    assert {b"old", b"newer"} == set(left(disk))
    disk.sync("")
    assert {b"newer"} == set(left(disk))


def test_pages_of_a_mapped_file_are_written_in_any_order_and_torn() -> None:
    disk = SimDisk()
    file = disk.map("f", 4 * PAGE_BYTES)
    disk.sync("f", "")
    file.buffer[:] = b"x" * len(file.buffer)
    found = {bytes(data) for data in left(disk) if data is not None}
    assert {bytes(len(file.buffer)), b"x" * len(file.buffer)} < found
    assert any(data.startswith(b"x" * PAGE_BYTES + b"\0") for data in found)
    assert any(data.startswith(b"\0") and data.endswith(b"x") for data in found)
    assert any(data.count(b"x") % PAGE_BYTES for data in found)


def test_names_change_in_their_order() -> None:
    disk = SimDisk()
    for name in ("a", "b", "c"):
        disk.write(name, b"v")
        disk.sync(name)
    seen = {tuple(sorted(name for name in disk.crashed(Dice(seed)).files("") if "." not in name)) for seed in SEEDS}
    assert {(), ("a",), ("a", "b"), ("a", "b", "c")} == seen


@pytest.mark.parametrize(("kind", "disk"), [("kill all brokers", "none"), ("cut the power", "unsynced")])
def test_a_deed_that_would_lose_what_was_acknowledged_is_refused(kind: str, disk: str) -> None:
    with pytest.raises(ValueError, match=r"there is nothing without a disk|on a synced disk only"):
        Schedule(seed=1, disk=disk, deeds=(Deed(at_ms=0, kind=kind),))  # type: ignore[arg-type]
