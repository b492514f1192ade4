"""What a healthy log directory may look like besides: leftovers of brokers and operators, made from recordings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from tests.pipeline.corpus.edit import Log, is_data
from tests.pipeline.corpus.fault import HIGH, KILLED, MANY, PLAIN, STOPPED, THREE, orders

from odradek.records.record import Record, build_batch

__all__ = ["HARMLESS"]

MARK = "0123456789abcdef" * 2
HARMLESS: dict[str, tuple[str, Callable[[Path], object]]] = {}
"""By name the recording, and what is done to a copy of it."""

Made = Callable[[Path], object]


def harmless(name: str, base: str) -> Callable[[Made], Made]:
    """Declare one."""

    def declare(made: Made) -> Made:
        HARMLESS[name] = (base, made)
        return made

    return declare


@harmless("a replica on its way to another disk", STOPPED)
def on_its_way(root: Path) -> None:
    """Half of it is copied; the directory is called so until it has caught up."""
    log = orders(root)
    target = log.root / f"orders-0.{MARK}-future"
    shutil.copytree(log.path, target)
    (one,) = target.glob("*.log")
    one.write_bytes(one.read_bytes()[: one.stat().st_size // 2])


@harmless("a stray replica", STOPPED)
def stray(root: Path) -> None:
    shutil.copytree(orders(root).path, orders(root).root / f"payments-0.{MARK}-stray")


@harmless("a topic that is being deleted", STOPPED)
def being_deleted(root: Path) -> None:
    shutil.copytree(orders(root).path, orders(root).root / f"payments-0.{MARK}-delete")


@harmless("segments that are deleted a minute later", MANY)
def deleted_later(root: Path) -> None:
    log = orders(root, 2)
    for path in list(log.path.glob(f"{log.segments[1].stem}.*")):
        if path.suffix != ".snapshot":
            shutil.copy(path, path.with_name(f"{path.name}.deleted"))


@harmless("a cleaner that was killed while it wrote", MANY)
def half_cleaned(root: Path) -> None:
    log = orders(root, 2)
    for path in list(log.path.glob(f"{log.segments[1].stem}.*")):
        if path.suffix != ".snapshot":
            path.with_name(f"{path.name}.cleaned").write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    log.unseal()


@harmless("a cleaner that was killed while it swapped", MANY)
def half_swapped(root: Path) -> None:
    """The new segment has its last suffix but one, and the old one is gone; the next start takes the suffix away."""
    log = orders(root, 2)
    for path in list(log.path.glob(f"{log.segments[1].stem}.*")):
        if path.suffix == ".snapshot":
            continue
        shutil.copy(path, path.with_name(f"{path.name}.deleted"))
        path.rename(path.with_name(f"{path.name}.swap"))
    log.unseal()


@harmless("a partition behind a symbolic link", STOPPED)
def linked(root: Path) -> None:
    path = orders(root).path
    target = root / "elsewhere"
    path.rename(target)
    path.symlink_to(target)


@harmless("files of other programs", STOPPED)
def of_others(root: Path) -> None:
    here = root / "broker-1"
    (here / "lost+found").mkdir()
    (here / ".snapshot").mkdir()
    (here / "README").write_text("Do not touch.")
    (orders(root).path / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")
    (orders(root).path / f"{0:020}.log.bak").write_bytes(b"what the disk had")


@harmless("a snapshot of no bytes, after a crash", KILLED)
def empty_snapshot(root: Path) -> None:
    """It was made and not yet written when the power went; brokers remove it when they start."""
    log = orders(root)
    log.unseal()
    (log.path / f"{0:020}.snapshot").write_bytes(b"")


@harmless("zeros behind the end, after a crash", KILLED)
def zeros(root: Path) -> None:
    with orders(root).segment_of().open("ab") as file:
        file.write(bytes(4096))


@harmless("a follower with what its leader never had", THREE)
def diverged(root: Path) -> None:
    """A batch above the high watermark, which the follower cuts off when it next fetches."""
    log = orders(root, 0, 3)
    found = log.read()
    last = found[-1]
    end = int.from_bytes(last[:8]) + int.from_bytes(last[23:27]) + 1
    added = bytearray(build_batch([Record(value=b"never", timestamp=int.from_bytes(last[35:43]))], base_offset=end))
    added[12:16] = last[12:16]
    log.write([*found, added])
    log.unseal()


@harmless("half a batch at the end of a follower, after a crash", THREE)
def torn_follower(root: Path) -> None:
    log = orders(root, 0, 2)
    with log.segment_of().open("ab") as file:
        batch = log.read()[-1]
        batch[:8] = (int.from_bytes(batch[:8]) + 1).to_bytes(8)
        file.write(batch[:50])
    log.unseal()


@harmless("indexes that were removed to be built again", STOPPED)
def without_indexes(root: Path) -> None:
    for suffix in (".index", ".timeindex"):
        for path in (root / "broker-1").glob(f"*/*{suffix}"):
            path.unlink()


@harmless("a copy of segments alone", STOPPED)
def segments_alone(root: Path) -> None:
    for path in (root / "broker-1").rglob("*"):
        if path.is_file() and path.suffix != ".log":
            path.unlink()


@harmless("a high watermark that is behind, after a crash", KILLED)
def behind(root: Path) -> None:
    orders(root).checkpoint(HIGH, 2)


@harmless("checkpoints of no bytes, after a crash", KILLED)
def empty_checkpoints(root: Path) -> None:
    for path in (root / "broker-1").glob("*-offset-checkpoint"):
        path.write_bytes(b"")


@harmless("a mirror that writes with the times and keys of its source", PLAIN)
def late_times(root: Path) -> None:
    """Times that go back from batch to batch are the producer's own business."""
    log = Log(root, "plain-0")
    last = log.read()[-1]
    now = int.from_bytes(last[35:43])
    log.append(*(build_batch([Record(key=b"k", value=b"v", timestamp=now - at * 3_600_000)]) for at in range(1, 4)))


@harmless("a broker that was not audited", THREE)
def left_out(root: Path) -> None:
    shutil.rmtree(root / "broker-3")


@harmless("a partition without data", STOPPED)
def nothing_yet(root: Path) -> None:
    """Made a moment ago: the directory is there, and the broker has not written partition.metadata."""
    log = Log(root, "orders-0")
    assert log.places(is_data)
    target = log.root / "fresh-0"
    target.mkdir()
    for name in (".log", ".index", ".timeindex"):
        (target / f"{0:020}{name}").write_bytes(b"")
    (target / "leader-epoch-checkpoint").write_bytes(b"")
