"""Faults of topics whose segments go to a store (KIP-405): what is neither here nor noted to be there."""

from __future__ import annotations

from pathlib import Path

from tests.pipeline.corpus.edit import Log
from tests.pipeline.corpus.fault import fault
from tests.pipeline.planting import close

from odradek.records.batch import batches
from odradek.records.record import Record, build_batch, iterate_records
from odradek.records.state import decode_remote, encode_remote
from odradek.wire.messages.remote_log_segment_metadata_record import RemoteLogSegmentMetadataRecord
from odradek.wire.messages.remote_log_segment_metadata_update_record import (
    RemoteLogSegmentIdEntry,
    RemoteLogSegmentMetadataUpdateRecord,
    TopicIdPartitionEntry,
)
from odradek_pipeline.directories.remote import State

TIERED = "tiered"
STORES = "Segments in a store"


def note(root: Path, topic: str, number: int, first: int, state: State) -> None:
    """Note another state of the copy that begins at this offset, as a broker does."""
    for path in sorted((root / "broker-1").glob("__remote_log_metadata-*")):
        log = Log(root, path.name)
        for batch in batches(memoryview(log.segment_of().read_bytes())):
            for record in iterate_records(batch):
                made = decode_remote(record.value or b"")
                if not isinstance(made, RemoteLogSegmentMetadataRecord):
                    continue
                of = made.remote_log_segment_id.topic_id_partition
                if (of.name, of.partition, made.start_offset) != (topic, number, first):
                    continue
                update = RemoteLogSegmentMetadataUpdateRecord(
                    remote_log_segment_id=RemoteLogSegmentIdEntry(
                        topic_id_partition=TopicIdPartitionEntry(name=topic, id=of.id, partition=number),
                        id=made.remote_log_segment_id.id,
                    ),
                    broker_id=1,
                    event_timestamp_ms=record.timestamp,
                    remote_log_segment_state=state,
                )
                value = encode_remote(update, 0)
                log.append(build_batch([Record(value=value, timestamp=record.timestamp)]))
                return
    raise AssertionError(f"no copy of {topic}-{number} begins at {first}")


@fault(STORES, "a segment that was deleted in the store too early", TIERED, "missing-segment")
def deleted_too_early(root: Path) -> None:
    close(root / "broker-1")
    note(root, "orders", 1, 32, State.DELETE_STARTED)


@fault(STORES, "a segment that was removed before its copy was there", TIERED, "missing-segment")
def not_yet_there(root: Path) -> None:
    close(root / "broker-1")
    note(root, "orders", 1, 32, State.COPY_STARTED)


KINDS = (STORES,)
