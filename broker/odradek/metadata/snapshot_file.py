"""A snapshot of the metadata log as a file (KIP-630): a header, the records of an image, a footer.

Header and footer are control batches; offsets count from 0, and every batch has the epoch that the file's name says.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from odradek.core.machine import LogRecord
from odradek.log.disk import DamagedFile
from odradek.metadata.features import METADATA_VERSION, record_version
from odradek.metadata.snapshot import snapshot_records
from odradek.records.batch import InvalidBatch, batches, plain_batch, stamp
from odradek.records.control import (
    ControlType,
    control_type,
    quorum_records,
    snapshot_footer,
    snapshot_header,
    snapshot_time,
)
from odradek.records.record import iterate_records
from odradek.records.state import Unknown, decode_metadata, encode_metadata, not_known
from odradek.wire.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from msgspec import Struct

    from odradek.metadata.image import MetadataImage
    from odradek.records.batch import Batch, KeyValue
    from odradek.records.record import Record

__all__ = ["read_last_timestamp", "read_quorum", "read_snapshot", "write_snapshot"]

RECORDS_PER_BATCH = 1_000


def write_snapshot(
    image: MetadataImage, *, epoch: int, last_timestamp: int, now: int, quorum: Iterable[KeyValue] = ()
) -> bytes:
    """The file of a published image; `last_timestamp` is that of the last record in it (ms).

    The records of the `quorum` are in no image, and a node that begins with the snapshot has no others.
    """
    level = image.feature(METADATA_VERSION)
    out = bytearray()
    offset = _add(out, snapshot_header(last_timestamp=last_timestamp, timestamp=now, quorum=quorum), 0, epoch)
    records = iter(snapshot_records(image))
    while some := list(islice(records, RECORDS_PER_BATCH)):
        encoded = [LogRecord(None, encode_metadata(each, record_version(each, level))) for each in some]
        offset = _add(out, plain_batch(encoded, timestamp=now), offset, epoch)
    _add(out, snapshot_footer(timestamp=now), offset, epoch)
    return bytes(out)


def _add(out: bytearray, batch: Batch, offset: int, epoch: int) -> int:
    start = len(out)
    out += batch.view
    stamp(out, start, base_offset=offset, leader_epoch=epoch)
    return offset + batch.record_count


def read_quorum(data: bytes) -> dict[ControlType, Record]:
    """The records of the quorum in a snapshot, which are in its first batch."""
    try:
        return quorum_records(islice(batches(memoryview(data)), 1))
    except (InvalidBatch, DecodeError):
        return {}


def read_last_timestamp(data: bytes) -> int:
    """The timestamp (ms) of the last record in a snapshot, by its header. Raises `DamagedFile`."""
    try:
        header = next(iterate_records(next(batches(memoryview(data)))))
        if control_type(header) is ControlType.SNAPSHOT_HEADER:
            return snapshot_time(header)
    except (InvalidBatch, DecodeError, StopIteration) as error:
        raise DamagedFile(f"it has no header of a snapshot ({error})") from None
    raise DamagedFile("it has no header of a snapshot")


def read_snapshot(data: bytes) -> list[Struct]:
    """The records of a snapshot, those of a quorum with its voters in the log (KIP-853) before all others.

    Raises `DamagedFile` for an incomplete one.
    """
    records: list[Struct] = []
    kinds: list[ControlType] = []
    try:
        for batch in batches(memoryview(data)):
            if not batch.crc_is_valid():
                raise DamagedFile(f"the checksum of the batch at offset {batch.base_offset} is not that of its bytes")
            if batch.is_control:
                kinds += map(control_type, iterate_records(batch))
                if found := quorum_records((batch,)):
                    from odradek.metadata.quorum import decode_quorum  # most quorums have static voters

                    records += decode_quorum(found)
            else:
                records += (decode_metadata(record.value or b"") for record in iterate_records(batch))
    except (InvalidBatch, DecodeError) as error:
        raise DamagedFile(str(error)) from None
    unknown = next((each for each in records if isinstance(each, Unknown)), None)
    if unknown is not None:
        raise DamagedFile(not_known(unknown))
    if not kinds or kinds[0] is not ControlType.SNAPSHOT_HEADER or kinds[-1] is not ControlType.SNAPSHOT_FOOTER:
        raise DamagedFile("it has no header and footer of a snapshot")
    return records
