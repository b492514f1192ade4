"""Changes in the files of a stopped system: what a process may have left there that no client can bring about soon."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec.structs import replace
from tests.swap.states import OLDER, OLDER_END, WORN

from odradek.cli.logs import make_logger
from odradek.core.machine import LogRecord
from odradek.log.file_log import FileLog
from odradek.log.file_store import FileStore
from odradek.log.files.checkpoints import write_epochs
from odradek.log.files.indexes import write_offset_index, write_time_index
from odradek.log.files.marks import read_meta
from odradek.log.files.names import LEADER_EPOCHS, META
from odradek.log.files.walk import index_of_segment, walk
from odradek.log.log import Log
from odradek.log.metadata_log import METADATA_TOPIC
from odradek.net.disk import LocalDisk
from odradek.records.batch import plain_batch
from odradek.records.compression import Compression
from odradek.records.message_set import message_set
from odradek.records.record import Record, iterate_records
from odradek.records.state import encode_metadata
from odradek.txn.entry import EPOCH_LAST_USABLE, NONE, decode_entry, decode_id, encode_entry
from odradek.txn.states import TxnState
from odradek.wire.messages.begin_transaction_record import BeginTransactionRecord
from odradek.wire.messages.topic_record import TopicRecord

__all__ = ["changing", "leave_open", "plant_older", "wear_out"]


@contextmanager
def changing(path: Path) -> Iterator[FileStore]:
    """The logs of a stopped system, to append what a process may have left there; stopped as it was before."""
    disk = LocalDisk(path, make_logger(level="error"))
    node_id = read_meta((path / META).read_bytes()).node_id
    store = FileStore(disk, node_id=node_id, now=lambda: int(time.time() * 1000), unique=lambda: "0" * 32)
    was_clean, epoch = store.was_clean, store.broker_epoch
    store.begin()
    yield store
    if was_clean:
        store.close(broker_epoch=epoch)
    disk.close()


def leave_open(path: Path, end: str) -> None:
    """Append the beginning of a metadata transaction, as a controller that ends within it leaves it."""
    with changing(path) as store:
        assert store.was_clean is (end == "stop")
        log = store.find(METADATA_TOPIC, 0)
        assert log is not None
        records = [BeginTransactionRecord(name="half"), TopicRecord(name="never", topic_id=b"n" * 16)]
        batch = plain_batch([LogRecord(None, encode_metadata(each, 0)) for each in records], timestamp=store.now())
        log.append(batch, leader_epoch=log.leader_epoch, now=store.now())


def wear_out(paths: Sequence[Path], now: int) -> None:
    """Give a transactional id the epoch before the last one of its producer id; 32,000 transactions would do it, too.

    The record is that of an InitProducerId, without a transaction. All replicas get the same one, in the same epoch.
    """
    with ExitStack() as exits:
        stores = [exits.enter_context(changing(path)) for path in paths]
        found = [(log, *last) for store in stores for log in store.logs() if (last := _last_of_worn(log)) is not None]
        assert len(paths) == len(found)
        leader_epoch = max(log.leader_epoch for log, *_ in found)
        for log, key, value in found:
            entry = decode_entry(WORN, value)
            assert entry is not None
            entry = replace(
                entry,
                state=TxnState.EMPTY,
                producer_epoch=EPOCH_LAST_USABLE - 1,
                last_producer_epoch=NONE,
                partitions=(),
            )
            worn = LogRecord(key, encode_entry(entry, int.from_bytes(value[:2])))
            assert isinstance(log, FileLog)
            log.take(plain_batch([worn], timestamp=now), leader_epoch=leader_epoch, now=now, log_append_time=False)


def plant_older(paths: Sequence[Path], now: int) -> None:
    """Put messages of magic 0 and 1 into the log of a topic, compressed ones too; all replicas get the same ones."""
    records = [Record(offset, now + offset, b"key", b"older-%d" % offset) for offset in range(OLDER_END)]
    codecs = (Compression.NONE, Compression.GZIP, Compression.SNAPPY, Compression.LZ4)
    parts = [records[first : first + 3] for first in range(0, OLDER_END, 3)]
    kinds = [(magic, codec) for magic in (0, 1) for codec in codecs]
    content = b"".join(
        message_set(part, magic=magic, compression=codec) for part, (magic, codec) in zip(parts, kinds, strict=True)
    )
    index = walk(memoryview(content), 0, checks=True)
    by_offset, by_time = index_of_segment(memoryview(content), index, interval_bytes=256)
    for path in paths:
        name = f"{OLDER}-0/{0:020d}"
        (path / f"{name}.log").write_bytes(content)
        (path / f"{name}.index").write_bytes(write_offset_index(0, by_offset))
        (path / f"{name}.timeindex").write_bytes(write_time_index(0, by_time))
        (path / f"{OLDER}-0" / LEADER_EPOCHS).write_bytes(write_epochs([(0, 0)]))


def _last_of_worn(log: Log) -> tuple[bytes, bytes] | None:
    """Key and value of the last record of a log, if it is that of the transactional id."""
    if log.topic != "__transaction_state":
        return None
    records = [record for batch in log.batches(0) for record in iterate_records(batch)]
    if not records or decode_id(records[-1].key or b"") != WORN:
        return None
    return bytes(records[-1].key or b""), bytes(records[-1].value or b"")
