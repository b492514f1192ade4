"""Directories with a compacted topic that are not as they should be: the log, and the files of a pass.

The log of `ORDERS` has holes that a cleaner has left, and a part that no cleaner has seen. A pass that is interrupted
leaves files; `Pass.after` has each state in which a process may end.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from confluent_kafka import Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)
from tests.swap.damages import SECOND_MS, SEGMENT_BYTES, Damage, metadata
from tests.swap.outcomes import FOLDER, ORDERS, OTHER, TIMEOUT_S, Lines
from tests.swap.systems import SHARED

from odradek.log.files.checkpoints import read_offsets
from odradek.log.files.indexes import write_offset_index, write_time_index
from odradek.log.files.names import CLEANED_OFFSETS, segment_file
from odradek.log.files.walk import index_of_segment, walk
from odradek.records.batch import batches
from odradek.testing import Cluster
from odradek.wire.messages.config_record import ConfigRecord

__all__ = ["BASES", "END", "PASSES", "Pass", "file_of", "make_compacted", "make_empty_compacted", "soon"]

BASES = (0, 3, 6, 11, 14)
"""Where the segments begin. Offsets 0 and 2 are superseded; a transaction at 9 is aborted by the marker at 10."""
END = 16
DIRTY_FROM = 6
"""Up to where a cleaner has come."""
KEYS = "abcacdebg-.eahij"
"""The key of the record at each offset; `-` stands for the aborted one, and its marker follows."""
RATIO = "min.cleanable.dirty.ratio"
NEVER, SOON = "1.0", "0.01"
TOPIC = 2
"""The type of a resource."""
INTERVAL_BYTES = int(SHARED["log.index.interval.bytes"])


def _set(cluster: Cluster, **values: str) -> None:
    entries = [
        ConfigEntry(name.replace("_", "."), value, incremental_operation=AlterConfigOpType.SET)
        for name, value in values.items()
    ]
    resource = ConfigResource(ResourceType.TOPIC, ORDERS, incremental_configs=entries)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(TIMEOUT_S)


def make_compacted(path: Path) -> None:
    """The directory of a broker that has stopped cleanly, with the log of `BASES`; nothing cleans it any more."""
    config = {**SHARED, "log.segment.bytes": str(SEGMENT_BYTES)}
    with Cluster(data_dir=path, topics=[ORDERS, OTHER], config=config, log=Lines()) as cluster:
        _set(cluster, cleanup_policy="compact", min_cleanable_dirty_ratio=SOON)
        settings = {"bootstrap.servers": cluster.bootstrap, "linger.ms": 0, "log_level": 0}
        plain = Producer(settings)
        till = Producer({**settings, "transactional.id": "till"})
        till.init_transactions(TIMEOUT_S)
        began = int(time.time() * 1000) + 600 * SECOND_MS

        def produce(offset: int) -> None:
            at = began + offset * SECOND_MS
            if KEYS[offset] != "-":
                plain.produce(ORDERS, KEYS[offset].encode() * 300_000, KEYS[offset], 0, timestamp=at)
                assert 0 == plain.flush(TIMEOUT_S)
                return
            till.begin_transaction()
            till.produce(ORDERS, b"aborted", "x", 0, timestamp=at)
            till.flush(TIMEOUT_S)
            till.abort_transaction(TIMEOUT_S)

        for offset in range(7):
            produce(offset)
        cluster.wait_for(lambda: read_offsets((path / CLEANED_OFFSETS).read_bytes()).get((ORDERS, 0)) == DIRTY_FROM)
        _set(cluster, min_cleanable_dirty_ratio=NEVER)
        for offset in [7, 8, 9, *range(11, END)]:
            produce(offset)
        for word in ("a", "b"):
            plain.produce(OTHER, word)
            assert 0 == plain.flush(TIMEOUT_S)


def make_empty_compacted(path: Path, partitions: int) -> None:
    """The same topics with more partitions, and without the records of the first topic."""
    with Cluster(data_dir=path, topics=[f"{ORDERS}:{partitions}", OTHER], config=SHARED, log=Lines()) as cluster:
        _set(cluster, cleanup_policy="compact", min_cleanable_dirty_ratio=NEVER)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for word in ("a", "b"):
            producer.produce(OTHER, word)
            assert 0 == producer.flush(TIMEOUT_S)


def soon(path: Path) -> None:
    """The cleaner works after the next start."""
    metadata(ConfigRecord(resource_type=TOPIC, resource_name=ORDERS, name=RATIO, value=SOON))(path)


def file_of(base: int, suffix: str = ".log") -> str:
    return f"{FOLDER}/{segment_file(base, suffix)}"


class Pass(NamedTuple):
    """Segments that others replace: what a pass of the cleaner does, and the split of one that is too long."""

    old: Sequence[int]
    """Their first offsets."""
    new: Sequence[int]
    superseded: Collection[int]
    """Batches of the old segments that are not in the new ones."""

    def write(self, folder: Path) -> None:
        """The new segments with all their files, of which none is in its place yet."""
        kept = [
            batch
            for base in self.old
            for batch in batches(memoryview((folder / segment_file(base, ".log")).read_bytes()))
            if batch.base_offset not in self.superseded
        ]
        aborted = b"".join(
            file.read_bytes() for base in self.old if (file := folder / segment_file(base, ".txnindex")).exists()
        )
        for base, following in zip(self.new, [*self.new[1:], END], strict=True):
            data = b"".join(bytes(each.view) for each in kept if base <= each.base_offset < following)
            view = memoryview(data)
            by_offset, by_time = index_of_segment(view, walk(view, base, checks=True), interval_bytes=INTERVAL_BYTES)
            contents = {
                ".log": data,
                ".index": write_offset_index(base, by_offset),
                ".timeindex": write_time_index(base, by_time),
                ".txnindex": aborted,
            }
            for suffix, content in contents.items():
                if content:
                    (folder / (segment_file(base, suffix) + ".cleaned")).write_bytes(content)

    def renames(self, folder: Path) -> Iterator[tuple[str, str]]:
        """The steps by which they come into their places, as Kafka's `LocalLog.replaceSegments` takes them."""

        def names(bases: Sequence[int], state: str) -> Iterator[str]:
            for base in bases:
                for suffix in (".log", ".index", ".timeindex", ".txnindex"):
                    if (folder / (segment_file(base, suffix) + state)).exists():
                        yield segment_file(base, suffix)

        new = list(names(self.new, ".cleaned"))
        yield from ((f"{name}.cleaned", f"{name}.swap") for name in names(self.new[::-1], ".cleaned"))
        yield from ((name, f"{name}.deleted") for name in list(names(self.old, "")))
        yield from ((f"{name}.swap", name) for name in new)

    def after(self, steps: int) -> Damage:
        """The process ends after so many of them."""

        def damage(path: Path) -> None:
            folder = path / FOLDER
            self.write(folder)
            for before, now in list(self.renames(folder))[:steps]:
                (folder / before).rename(folder / now)

        return damage


PASSES = {
    "one segment": Pass((6,), (6,), (6, 9)),
    "two segments into one": Pass((6, 11), (6,), (6, 9)),
    "one segment into two": Pass((11,), (11, 13), ()),
}
"""And the number of renames of each is that of the old files, and twice that of the new ones."""
