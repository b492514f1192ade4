"""What one fork has found in a folder, another one takes over: both have the same log, and neither sees the other."""

from __future__ import annotations

from array import array
from itertools import count

import pytest
from tests.unit.log.helpers import NOW, batch
from tests.unit.log.test_file_log import append, known, lead, log_bytes, new_log

from odradek.config.table import TopicConfig
from odradek.log.aborted import AbortedIndex
from odradek.log.epochs import LeaderEpochs
from odradek.log.file_log import FileLog
from odradek.log.file_segment import Gaps
from odradek.log.file_store import FileStore
from odradek.log.found_log import FoundBefore, FoundLog
from odradek.log.partition import Appended
from odradek.log.segment import Segment
from odradek.sim.world.disk import SimDisk

FOLDER = "topic-0"
CONFIG = TopicConfig(index_interval_bytes=250, segment_bytes=2000)


class Kept(FoundBefore):
    """The logs of the forks before, and how often one was known."""

    def __init__(self) -> None:
        self.logs: dict[str, FoundLog] = {}
        self.asked = 0
        super().__init__(self.logs, may_keep=lambda folder: True)

    def found(self, folder: str) -> FoundLog | None:
        found = super().found(folder)
        self.asked += found is not None
        return found


def open_store(disk: SimDisk, before: Kept) -> FileStore:
    numbers = count()
    return FileStore(disk, node_id=1, now=lambda: NOW, unique=lambda: f"{next(numbers):032x}", before=before)


def stopped(batches: int) -> SimDisk:
    """A log with several segments and producers, one of whose transactions was aborted, after a clean stop."""
    disk, store, partition = new_log(config=CONFIG)
    partition = lead(store, 0, CONFIG)
    for number in range(batches):
        one = batch(b"%d" % number * 100, timestamp=NOW + number, producer_id=7, epoch=0, sequence=number)
        assert isinstance(partition.append_client(one, now=NOW), Appended)
    if batches:
        begun = batch(b"open", producer_id=8, epoch=0, sequence=0, transactional=True)
        guard = partition.begin_verification(8, 0, 0, supports_epoch_bump=False, now=NOW)
        assert isinstance(partition.append_client(begun, now=NOW, guard=guard), Appended)  # type: ignore[arg-type]
        partition.append_marker(
            producer_id=8, producer_epoch=0, commit=False, coordinator_epoch=0, transaction_version=1, now=NOW
        )
    store.close(broker_epoch=0)
    return disk.killed()


def content(value: object) -> object:
    """The state of a part of a log, for a comparison; what another part has is left out."""
    if isinstance(value, (Segment, Gaps)):
        names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
        held = {name: vars_of(value, name) for name in names if name not in ("_disk", "_entries", "_note_gap")}
        return type(value), {name: content(each) for name, each in held.items()}
    if isinstance(value, (LeaderEpochs, AbortedIndex)):
        return {name: list(each) for name, each in vars(value).items()}
    if isinstance(value, (list, tuple)):
        return [content(each) for each in value]
    return bytes(value) if isinstance(value, (memoryview, array)) else value


def vars_of(value: object, name: str) -> object:
    """An attribute, if it was loaded."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return "not loaded"


def state(log: FileLog) -> dict[str, object]:
    held = {name: each for name, each in vars(log).items() if name not in ("store", "files", "disk")}
    return {name: content(each) for name, each in held.items()}


@pytest.mark.parametrize("batches", [0, 1, 10, 40])
def test_a_log_that_was_found_before_is_the_same(batches: int) -> None:
    disk, kept = stopped(batches), Kept()
    one, other = open_store(disk.killed(), kept), open_store(disk.killed(), kept)
    assert (1, [FOLDER]) == (kept.asked, list(kept.logs))
    [first], [second] = one.logs(), other.logs()
    assert isinstance(first, FileLog)
    assert isinstance(second, FileLog)
    assert state(first) == state(second)
    assert (one.room, one._numbers) == (other.room, other._numbers)
    one.begin()
    other.begin()
    assert state(first) == state(second)


def test_forks_do_not_see_what_others_append() -> None:
    disk, kept = stopped(10), Kept()
    before = state(only(open_store(disk.killed(), kept)))
    for _ in range(2):
        store = open_store(disk.killed(), kept)
        store.begin()
        partition = lead(store, 1, CONFIG)
        found = known(partition), log_bytes(partition)
        for number in range(30):
            append(partition, b"%d" % number * 100)
        partition.log.advance_start(partition.log.end_offset)
        again = lead(open_store(disk.killed(), kept), 1, CONFIG)
        assert found == (known(again), log_bytes(again))
    assert before == state(only(open_store(disk.killed(), kept)))


def only(store: FileStore) -> FileLog:
    [log] = store.logs()
    assert isinstance(log, FileLog)
    return log


def test_a_log_that_was_not_stopped_in_order_is_looked_at_each_time() -> None:
    disk, kept = stopped(40), Kept()
    cut = disk.killed()
    name = max(name for name in cut.files(FOLDER) if name.endswith(".log"))
    data = cut.content(f"{FOLDER}/{name}")
    cut.put(f"{FOLDER}/{name}", data[:-1])
    ends = [only(open_store(cut.killed(), kept)).end_offset for _ in range(2)]
    assert ends[0] == ends[1]
    assert not kept.logs


def test_a_log_whose_last_segment_is_empty() -> None:
    """As in a snapshot whose last segment was large: the segment before tells the newest epoch."""
    disk, kept = stopped(10), Kept()
    end = only(open_store(disk.killed(), kept)).end_offset
    for suffix in (".log", ".index", ".timeindex"):
        disk.put(f"{FOLDER}/{end:020d}{suffix}", b"")
    kept.logs.clear()
    kept.asked = 0
    stores = [open_store(disk.killed(), kept) for _ in range(2)]
    one, other = map(only, stores)
    assert 1 == kept.asked
    assert end == one.end_offset == other.end_offset
    assert one.epochs.entries() == other.epochs.entries()
    assert log_bytes_of(one) == log_bytes_of(other)
    for store in stores:
        store.begin()
    assert log_bytes_of(one) == log_bytes_of(other)


def log_bytes_of(log: FileLog) -> list[bytes]:
    return [bytes(each.view) for each in log.batches()]
