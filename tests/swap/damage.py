"""Data directories that are not as they should be, and the answers of a real Kafka 4.4 to each of them.

`python -m tests.swap.damage record [NAME …]` plays the table against a real Kafka and writes `damage.json`;
`python -m tests.swap.damage look [NAME …]` prints both answers to each row. `damage_compacted.py` has the rows of a
compacted topic, `damage_brokers.py` those of three brokers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.swap.damages import (
    ABORTED_LIE,
    CLEAN,
    CLEANED,
    END,
    EPOCHS,
    LAST_SNAPSHOT,
    MARKS,
    META,
    METADATA_LOG,
    PARTITION,
    RECOVERY,
    SEGMENTS,
    STARTS_AT,
    UNKNOWN,
    UNKNOWN_RECORD,
    added,
    all_of,
    backwards,
    checkpoint,
    copied,
    flipped,
    folder_of,
    garbage,
    half,
    in_its_place,
    killed,
    leaving,
    linked,
    linked_to_nothing,
    make_directory,
    make_empty_directory,
    merged,
    metadata,
    metadata_begins_later,
    more,
    newest,
    nothing,
    of_newer_version,
    of_older_messages,
    of_other_topic,
    producers_that_lie,
    quorum,
    renamed,
    rewritten,
    segment,
    snapshot_copied,
    with_codec,
    with_size,
    with_unknown_record,
    without,
    without_segments,
    zeros,
    zeros_in_the_middle,
)
from tests.swap.outcomes import FOLDER, LOOKED_FOR, ORDERS, OTHER, REFUSES, STARTS, Answer, Seen
from tests.swap.tables import Case, Table, main

from odradek.log.files.indexes import write_offset_index, write_time_index
from odradek.log.files.names import SnapshotId, checkpoint_file
from odradek.log.metadata_log import METADATA_FOLDER
from odradek.records.compression import Compression
from odradek.wire.messages.end_transaction_record import EndTransactionRecord
from odradek.wire.messages.feature_level_record import FeatureLevelRecord
from odradek.wire.messages.partition_change_record import PartitionChangeRecord

__all__ = ["TABLE"]

RECORDED = Path(__file__).with_suffix(".json")


CASES: Mapping[str, Case] = {
    "nothing": Case(lambda _: None),
    "nothing, after a kill": Case(killed(lambda _: None)),
    # Whose it is.
    "another process has the lock": Case(lambda _: None, is_locked=True),
    "meta.properties of another node": Case(rewritten(META, lambda data: data.replace(b"node.id=1", b"node.id=2"))),
    "meta.properties of another cluster": Case(
        rewritten(META, lambda data: re.sub(rb"cluster.id=.*\n", b"cluster.id=AnotherClusterAltogether\n", data))
    ),
    "no meta.properties": Case(without(META)),
    "meta.properties is empty": Case(rewritten(META, nothing)),
    "meta.properties of version 2": Case(rewritten(META, lambda data: data.replace(b"version=1", b"version=2"))),
    "meta.properties is cut off": Case(rewritten(META, half)),
    "meta.properties is garbage": Case(rewritten(META, garbage)),
    "meta.properties has no directory id": Case(rewritten(META, lambda data: re.sub(rb"directory.id=.*\n", b"", data))),
    # Files and folders.
    "a file in the place of a partition": Case(in_its_place(FOLDER, folder=False)),
    "a folder in the place of a segment": Case(in_its_place(segment(1), folder=True)),
    "a folder in the place of an index": Case(in_its_place(segment(1, ".index"), folder=True)),
    "a folder in the place of a checkpoint": Case(in_its_place(RECOVERY, folder=True)),
    "a folder in the place of the metadata's quorum-state": Case(
        in_its_place(f"{METADATA_FOLDER}/quorum-state", folder=True)
    ),
    "a partition is a symbolic link": Case(linked(FOLDER)),
    "a partition is a symbolic link to nothing": Case(linked(FOLDER, dangles=True)),
    "a segment is a symbolic link": Case(linked(segment(0))),
    "a segment is a symbolic link to nothing": Case(linked(segment(0), dangles=True)),
    "a foreign file in a partition": Case(added(f"{FOLDER}/notes.txt")),
    "a link to nothing in a partition": Case(linked_to_nothing(f"{FOLDER}/notes.txt")),
    "a foreign file": Case(added("notes.txt")),
    "a foreign file with the name of a partition": Case(added("topic-7")),
    "a link to nothing": Case(linked_to_nothing("notes")),
    "a foreign folder": Case(added("backup/notes.txt")),
    "a foreign folder with the name of a topic": Case(added("topic-x/notes.txt")),
    "an empty folder with the name of a partition": Case(lambda path: (path / "topic-7").mkdir()),
    "a folder with an id that no metadata knows": Case(folder_of("lost-0", UNKNOWN)),
    "a folder with the id of a topic with another name": Case(copied(FOLDER, "copy-0")),
    "two folders of one partition": Case(copied(FOLDER, f"{ORDERS}-00")),
    "a folder of a partition that the topic has not": Case(copied(FOLDER, f"{ORDERS}-5")),
    "a folder of a move between directories": Case(copied(FOLDER, f"{FOLDER}.{'a' * 32}-future")),
    "a stray folder": Case(copied(FOLDER, f"{FOLDER}.{'a' * 32}-stray")),
    "a folder that was being deleted": Case(copied(FOLDER, f"{FOLDER}.{'a' * 32}-delete")),
    "no folder of a topic": Case(without(FOLDER)),
    "no partition.metadata": Case(without(PARTITION)),
    "partition.metadata is empty": Case(rewritten(PARTITION, nothing)),
    "partition.metadata is garbage": Case(rewritten(PARTITION, garbage)),
    "partition.metadata of a newer version": Case(
        rewritten(PARTITION, lambda data: data.replace(b"version: 0", b"version: 3"))
    ),
    "partition.metadata names a topic that there is not": Case(of_other_topic(UNKNOWN)),
    "partition.metadata names the other topic": Case(of_other_topic(None)),
    # Segments.
    "no first segment": Case(without_segments(0)),
    "no middle segment": Case(without_segments(1)),
    "no last segment": Case(without_segments(2)),
    "no segment": Case(without_segments(0, 1, 2)),
    "no middle segment, after a kill": Case(killed(without_segments(1))),
    "no last segment, after a kill": Case(killed(without_segments(2))),
    "only the .log of the middle segment is missing": Case(without(segment(1))),
    "the middle segment is empty": Case(rewritten(segment(1), nothing)),
    "the middle segment is empty, after a kill": Case(killed(rewritten(segment(1), nothing))),
    "the middle segment under another offset": Case(renamed(segment(1), f"{FOLDER}/{5:020d}.log")),
    "the middle segment a second time": Case(copied(segment(1), f"{FOLDER}/{5:020d}.log")),
    "a byte has changed in a closed segment": Case(rewritten(segment(0), flipped)),
    "a byte has changed in a closed segment, after a kill": Case(killed(rewritten(segment(0), flipped))),
    "a byte has changed in a flushed segment, after a kill": Case(
        all_of(without(CLEAN), rewritten(segment(0), flipped))
    ),
    "a byte has changed in the last segment": Case(rewritten(segment(2), flipped)),
    "a byte has changed in the last segment, after a kill": Case(killed(rewritten(segment(2), flipped))),
    "zeros in the middle of a closed segment": Case(rewritten(segment(0), zeros_in_the_middle)),
    "zeros in the middle of a closed segment, after a kill": Case(killed(rewritten(segment(0), zeros_in_the_middle))),
    "zeros in the middle of the last segment": Case(rewritten(segment(2), zeros_in_the_middle)),
    "half a batch at the end of a closed segment": Case(rewritten(segment(0), lambda data: data[:-100])),
    "half a batch at the end of a closed segment, after a kill": Case(
        killed(rewritten(segment(0), lambda data: data[:-100]))
    ),
    "half a batch at the end": Case(rewritten(segment(2), lambda data: data[:-100])),
    "half a batch at the end, after a kill": Case(killed(rewritten(segment(2), lambda data: data[:-100]))),
    "garbage behind the end": Case(rewritten(segment(2), lambda data: data + b"\xa5" * 300)),
    "garbage behind the end, after a kill": Case(killed(rewritten(segment(2), lambda data: data + b"\xa5" * 300))),
    "zeros behind the end": Case(rewritten(segment(2), lambda data: data + bytes(5000))),
    # Indexes.
    "no indexes": Case(without(segment(0, ".index"), segment(0, ".timeindex"), segment(1, ".txnindex"))),
    "no indexes, after a kill": Case(
        killed(without(segment(0, ".index"), segment(0, ".timeindex"), segment(1, ".txnindex")))
    ),
    "an offset index is garbage": Case(rewritten(segment(0, ".index"), garbage)),
    "an offset index is zeros": Case(rewritten(segment(0, ".index"), zeros)),
    "an offset index is empty": Case(rewritten(segment(0, ".index"), nothing)),
    "an offset index has bytes too many": Case(rewritten(segment(0, ".index"), more)),
    "an offset index is backwards": Case(rewritten(segment(1, ".index"), backwards(8))),
    "an offset index points behind its segment": Case(
        added(segment(0, ".index"), write_offset_index(0, [(1, 2_000_000), (2, 3_000_000)]))
    ),
    "a time index is garbage": Case(rewritten(segment(0, ".timeindex"), garbage)),
    "a time index is zeros": Case(rewritten(segment(0, ".timeindex"), zeros)),
    "a time index is empty": Case(rewritten(segment(1, ".timeindex"), nothing)),
    "a time index has bytes too many": Case(rewritten(segment(0, ".timeindex"), more)),
    "a time index is backwards": Case(rewritten(segment(1, ".timeindex"), backwards(12))),
    "a time index has a time that is too late": Case(
        added(segment(0, ".timeindex"), write_time_index(0, [(2**45, 2)]))
    ),
    "a transaction index is garbage": Case(rewritten(segment(1, ".txnindex"), garbage)),
    "a transaction index is zeros": Case(rewritten(segment(1, ".txnindex"), zeros)),
    "a transaction index is empty": Case(rewritten(segment(1, ".txnindex"), nothing)),
    "a transaction index is cut off": Case(rewritten(segment(1, ".txnindex"), lambda data: data[:10])),
    "a transaction index has bytes too many": Case(rewritten(segment(1, ".txnindex"), more)),
    "a transaction index is backwards": Case(rewritten(segment(1, ".txnindex"), lambda data: data + ABORTED_LIE)),
    "a transaction index has another transaction": Case(added(segment(1, ".txnindex"), ABORTED_LIE)),
    "a transaction index is missing": Case(without(segment(1, ".txnindex"))),
    "a transaction index is garbage, after a kill": Case(killed(rewritten(segment(1, ".txnindex"), garbage))),
    "all indexes are garbage": Case(
        all_of(*(rewritten(segment(1, each), garbage) for each in (".index", ".timeindex", ".txnindex")))
    ),
    # Beside the segments.
    "a snapshot of producers is garbage": Case(rewritten(LAST_SNAPSHOT, garbage)),
    "a snapshot of producers is empty": Case(rewritten(LAST_SNAPSHOT, nothing)),
    "a snapshot of producers is missing": Case(without(LAST_SNAPSHOT)),
    "a snapshot of producers lies": Case(producers_that_lie),
    "a snapshot of producers lies, after a kill": Case(killed(producers_that_lie)),
    "a snapshot of producers from the future": Case(copied(LAST_SNAPSHOT, f"{FOLDER}/{99:020d}.snapshot")),
    "no snapshot of producers": Case(without(*(f"{FOLDER}/{offset:020d}.snapshot" for offset in (*SEGMENTS[1:], END)))),
    "leader epochs are garbage": Case(rewritten(EPOCHS, garbage)),
    "leader epochs are empty": Case(rewritten(EPOCHS, nothing)),
    "leader epochs are missing": Case(without(EPOCHS)),
    "leader epochs of a newer version": Case(rewritten(EPOCHS, lambda data: b"1" + data[1:])),
    "leader epochs begin behind the end": Case(added(EPOCHS, b"0\n2\n0 0\n3 99\n")),
    "leader epochs fall": Case(added(EPOCHS, b"0\n2\n3 0\n1 4\n")),
    "leader epochs with a negative number": Case(added(EPOCHS, b"0\n1\n-4 -7\n")),
    # Checkpoints of the directory.
    "recovery points are missing": Case(without(RECOVERY)),
    "log starts are garbage": Case(added(STARTS_AT, b"\xa5\xa5\xa5\n")),
    "a log start in the middle": Case(checkpoint(STARTS_AT, (ORDERS, 4))),
    "a log start behind the end": Case(checkpoint(STARTS_AT, (ORDERS, 99))),
    "a log start behind the end, after a kill": Case(killed(checkpoint(STARTS_AT, (ORDERS, 99)))),
    "a negative log start": Case(checkpoint(STARTS_AT, (ORDERS, -3))),
    "log starts of a newer version": Case(added(STARTS_AT, of_newer_version((ORDERS, 4)))),
    "recovery points are garbage": Case(rewritten(RECOVERY, garbage)),
    "recovery points are garbage, after a kill": Case(all_of(without(CLEAN), rewritten(RECOVERY, garbage))),
    "recovery points of a newer version": Case(added(RECOVERY, of_newer_version((ORDERS, END)))),
    "a negative recovery point": Case(checkpoint(RECOVERY, (ORDERS, -3), (OTHER, 2))),
    "a recovery point behind the end, after a kill": Case(
        all_of(without(CLEAN), checkpoint(RECOVERY, (ORDERS, 99), (OTHER, 2)))
    ),
    "high watermarks are garbage": Case(rewritten(MARKS, garbage)),
    "high watermarks are missing": Case(without(MARKS)),
    "high watermarks of a newer version": Case(added(MARKS, of_newer_version((ORDERS, END)))),
    "a negative high watermark": Case(checkpoint(MARKS, (ORDERS, -3), (OTHER, 2))),
    "a high watermark behind the end": Case(checkpoint(MARKS, (ORDERS, 99), (OTHER, 2))),
    "compacted offsets are garbage": Case(added(CLEANED, b"\xa5\xa5\xa5\n")),
    "compacted offsets of a newer version": Case(added(CLEANED, of_newer_version((ORDERS, 4)))),
    "a negative compacted offset": Case(checkpoint(CLEANED, (ORDERS, -3))),
    "a checkpoint has more lines than it says": Case(added(STARTS_AT, b"0\n1\norders 0 4\nother 0 1\n")),
    "a checkpoint has fewer lines than it says": Case(added(STARTS_AT, b"0\n2\norders 0 4\n")),
    "a checkpoint that was being written": Case(added(f"{RECOVERY}.tmp", b"0\n")),
    "the mark of a clean stop is garbage": Case(rewritten(CLEAN, garbage)),
    "the mark of a clean stop is empty": Case(rewritten(CLEAN, nothing)),
    "the mark of a clean stop of a newer version": Case(added(CLEAN, b'{"version":7,"brokerEpoch":3}')),
    # Compaction that was interrupted.
    "half of a compaction's output": Case(merged(".cleaned", cut=1000)),
    "a compaction's output before its swap": Case(merged(".swap")),
    "a compaction's output, its input is leaving": Case(all_of(merged(".swap"), leaving(0), leaving(1))),
    "a compaction's output, half of its input is leaving": Case(all_of(merged(".swap"), leaving(1))),
    "a compaction's output is cut off": Case(merged(".swap", cut=1000)),
    "a compaction's output is cut off, after a kill": Case(killed(merged(".swap", cut=1000))),
    "a compaction's output is cut off, its input is leaving": Case(
        all_of(merged(".swap", cut=1000), leaving(0), leaving(1))
    ),
    "a compaction's output is garbage": Case(added(f"{segment(0)}.swap", b"\xa5" * 5000)),
    "a compaction's output in both states": Case(all_of(merged(".swap"), merged(".cleaned"))),
    "files on their way out": Case(all_of(copied(segment(0), f"{segment(0)}.deleted"))),
    "a file that was being written": Case(added(f"{EPOCHS}.tmp")),
    # The metadata.
    "no metadata log": Case(without(METADATA_FOLDER)),
    "the metadata log is empty": Case(rewritten(METADATA_LOG, nothing)),
    "the metadata log is garbage": Case(rewritten(METADATA_LOG, garbage)),
    "the metadata log is cut off": Case(rewritten(METADATA_LOG, lambda data: data[:-20])),
    "the metadata log is cut off, after a kill": Case(killed(rewritten(METADATA_LOG, lambda data: data[:-20]))),
    "half of the metadata log": Case(rewritten(METADATA_LOG, half)),
    "a byte has changed in the metadata log": Case(rewritten(METADATA_LOG, flipped)),
    "a byte has changed in the metadata log, after a kill": Case(killed(rewritten(METADATA_LOG, flipped))),
    "the metadata log begins at its snapshot": Case(metadata_begins_later),
    "the metadata log begins later and has no snapshot": Case(
        all_of(metadata_begins_later, newest(".checkpoint", None))
    ),
    "the metadata log begins later and its snapshot is cut off": Case(
        all_of(metadata_begins_later, newest(".checkpoint", half))
    ),
    "the snapshot of the metadata is garbage": Case(newest(".checkpoint", garbage)),
    "the snapshot of the metadata is cut off": Case(newest(".checkpoint", half)),
    "a byte has changed in the snapshot of the metadata": Case(newest(".checkpoint", flipped)),
    "the snapshot of the metadata is empty": Case(newest(".checkpoint", nothing)),
    "the snapshot of the metadata is missing": Case(newest(".checkpoint", None)),
    "a snapshot of the metadata from the future": Case(snapshot_copied(checkpoint_file(SnapshotId(9999, 1)))),
    "a snapshot of the metadata that was being written": Case(
        snapshot_copied(f"{checkpoint_file(SnapshotId(9999, 1))}.part")
    ),
    "quorum-state is garbage": Case(rewritten(f"{METADATA_FOLDER}/quorum-state", garbage)),
    "quorum-state is missing": Case(without(f"{METADATA_FOLDER}/quorum-state")),
    "quorum-state is empty": Case(rewritten(f"{METADATA_FOLDER}/quorum-state", nothing)),
    "quorum-state of a newer version": Case(quorum(data_version=7)),
    "quorum-state of an older epoch": Case(quorum(leaderEpoch=0)),
    "quorum-state of a much later epoch": Case(quorum(leaderEpoch=1000)),
    "quorum-state of other voters": Case(quorum(currentVoters=[{"voterId": 7}], leaderId=7)),
    "no partition.metadata of the metadata log": Case(without(f"{METADATA_FOLDER}/partition.metadata")),
    "a metadata.version that is newer": Case(metadata(FeatureLevelRecord(name="metadata.version", feature_level=99))),
    "a feature level that is newer": Case(metadata(FeatureLevelRecord(name="transaction.version", feature_level=9))),
    "a feature that is unknown": Case(metadata(FeatureLevelRecord(name="pudding.version", feature_level=1))),
    "a metadata record of a type that is not known": Case(metadata(UNKNOWN_RECORD)),
    "a metadata record of a version that is not known": Case(metadata(b"\x01\x02\x09\x00")),
    "a metadata record of another frame version": Case(metadata(b"\x02\x02\x00\x00")),
    "a metadata record that is cut off": Case(metadata(b"\x01\x02\x00\x09")),
    "a metadata record that is empty": Case(metadata(b"")),
    "a metadata record of a topic that there is not": Case(
        metadata(PartitionChangeRecord(partition_id=0, topic_id=UNKNOWN, isr=[1]))
    ),
    "a metadata transaction ends that has not begun": Case(metadata(EndTransactionRecord())),
    "the snapshot of the metadata has a record of a type that is not known": Case(
        newest(".checkpoint", with_unknown_record)
    ),
    # Messages of magic 0 and 1.
    "messages of magic 0": Case(of_older_messages(0, magic=0)),
    "messages of magic 1, after a kill": Case(killed(of_older_messages(0))),
    "compressed messages of magic 1 in the last segment": Case(of_older_messages(2, compression=Compression.GZIP)),
    "compressed messages of magic 0 in the last segment, after a kill": Case(
        killed(of_older_messages(2, magic=0, compression=Compression.LZ4))
    ),
    "an older message is cut off": Case(of_older_messages(2, last=half)),
    "an older message is cut off, after a kill": Case(killed(of_older_messages(2, last=half))),
    "a byte has changed in an older message": Case(of_older_messages(2, last=flipped)),
    "a byte has changed in an older message, after a kill": Case(killed(of_older_messages(2, last=flipped))),
    "an older message says that it has 10 bytes": Case(of_older_messages(2, last=with_size(10))),
    "an older message says that it has 10 bytes, after a kill": Case(killed(of_older_messages(2, last=with_size(10)))),
    "an older message says that it has more bytes than its segment, after a kill": Case(
        killed(of_older_messages(2, last=with_size(1 << 30)))
    ),
    "an older message says that it is compressed": Case(of_older_messages(2, last=with_codec(1))),
    "an older message says that it is compressed, after a kill": Case(killed(of_older_messages(2, last=with_codec(1)))),
    "an older message says a codec that there is not": Case(of_older_messages(2, last=with_codec(7))),
    "an older message says a codec that there is not, after a kill": Case(
        killed(of_older_messages(2, last=with_codec(7)))
    ),
    "an older message in a closed segment says that it is compressed": Case(of_older_messages(0, last=with_codec(1))),
}


def found(
    offsets: str,
    *,
    start: int = 0,
    end: int = END,
    aborted: str = "5",
    by_time: Sequence[int] = LOOKED_FOR,
    unreadable: Mapping[str, str] | None = None,
) -> Answer:
    """It starts, and this can be read of the topic; all of the other one can."""
    orders = Seen(start, end, offsets, aborted, list(by_time), unreadable or {}, end)
    return Answer(STARTS, {FOLDER: orders, f"{OTHER}-0": Seen(0, 2, "0-1", "", [], {}, 2)})


WHOLE = found("0-10")
REFUSED = Answer(REFUSES)
LOST_END = "__cluster_metadata-0 reason=it ends at offset 33, and ended at 42 when its broker stopped: what was changed"
TOLD: Mapping[str, Sequence[str]] = {
    "another process has the lock": [
        "The data directory cannot be used: another process uses DIR: it has locked .lock."
    ],
    "meta.properties of another node": ["meta.properties is of node 2, and the quorum has the voters 1."],
    "no meta.properties": [
        "The data directory DIR has no meta.properties and is not empty: half a copy, or something else."
    ],
    "meta.properties is empty": ["meta.properties: it is damaged: it names no version."],
    "meta.properties of version 2": ["meta.properties: it is of version 2, and version 1 is known."],
    "meta.properties is cut off": ["meta.properties: it is damaged: it names no version."],
    "meta.properties is garbage": ["meta.properties: it is damaged: it names no version."],
    "a file in the place of a partition": ["DIR/orders-0: File exists."],
    "a folder in the place of a segment": ["DIR/orders-0/00000000000000000003.log is no file, or a link to none."],
    "a folder in the place of an index": ["DIR/orders-0/00000000000000000003.index is no file, or a link to none."],
    "a folder in the place of a checkpoint": ["DIR/recovery-point-offset-checkpoint: Is a directory."],
    "a folder in the place of the metadata's quorum-state": ["DIR/__cluster_metadata-0/quorum-state: Is a directory."],
    "a partition is a symbolic link to nothing": ["DIR/orders-0: File exists."],
    "a segment is a symbolic link to nothing": ["DIR/orders-0/00000000000000000000.log is no file, or a link to none."],
    "a foreign folder": ["backup reason=it is no folder of a partition, and is left alone"],
    "a foreign folder with the name of a topic": ["topic-x reason=it is no folder of a partition, and is left alone"],
    "an empty folder with the name of a partition": ["folder_without_topic_id folder=topic-7"],
    "a folder with an id that no metadata knows": ["stray_logs_set_aside folders=['lost-0']"],
    "a folder with the id of a topic with another name": [
        "copy-0 and orders-0 are the same partition of the topic ID, so one of them is a copy."
    ],
    "two folders of one partition": ["orders-00 reason=it is no folder of a partition, and is left alone"],
    "a folder of a partition that the topic has not": ["stray_logs_set_aside folders=['orders-5']"],
    "a folder of a move between directories": [
        "orders-0.UNIQUE-future reason=it is no replica that is in use, and is left alone"
    ],
    "a stray folder": ["orders-0.UNIQUE-stray reason=it is no replica that is in use, and is left alone"],
    "no folder of a topic": ["folder_is_missing folder=orders-0"],
    "no partition.metadata": ["orders-0/partition.metadata reason=it has no topic id; the folder's name decides"],
    "partition.metadata is empty": ["orders-0/partition.metadata reason=it has no topic id; the folder's name decides"],
    "partition.metadata is garbage": ["orders-0/partition.metadata: it is damaged: it names no version."],
    "partition.metadata of a newer version": [
        "orders-0/partition.metadata: it is of version 3, and version 0 is known."
    ],
    "partition.metadata names a topic that there is not": ["stray_logs_set_aside folders=['orders-0']"],
    "partition.metadata names the other topic": [
        "orders-0 and other-0 are the same partition of the topic ID, so one of them is a copy."
    ],
    "no first segment": ["orders-0 reason=it begins at offset 3, and its leader epochs at 0"],
    "no middle segment": ["orders-0 reason=offsets 3 to 7 are in no segment"],
    "no last segment": ["orders-0 reason=it ends at offset 8, and everything up to 11 was on the device"],
    "no segment": ["orders-0 reason=it ends at offset 0, and everything up to 11 was on the device"],
    "no middle segment, after a kill": ["orders-0 reason=offsets 3 to 7 are in no segment"],
    "only the .log of the middle segment is missing": ["orders-0 reason=offsets 3 to 7 are in no segment"],
    "the middle segment is empty": ["orders-0 reason=offsets 3 to 7 are in no segment"],
    "the middle segment is empty, after a kill": ["orders-0 reason=offsets 3 to 7 are in no segment"],
    "the middle segment under another offset": [
        "orders-0/00000000000000000005.index reason=it is missing; the indexes are made of the batches again",
        "orders-0/00000000000000000005.log reason=a batch at offset 3 follows offset 4 (position 0); what follows",
        "orders-0 reason=offsets 3 to 4 are in no segment",
    ],
    "the middle segment a second time": [
        "orders-0/00000000000000000003.txnindex reason=it has a transaction from offset 5 to 6; it is made of the",
        "orders-0/00000000000000000005.log reason=a batch at offset 3 follows offset 4 (position 0); what follows",
    ],
    "a byte has changed in a closed segment, after a kill": [
        "orders-0/00000000000000000003.log reason=it follows offset 0, where the log ends",
        "orders-0/00000000000000000008.log reason=it follows offset 0, where the log ends",
        "log_tail_cut folder=orders-0 end_offset=1 bytes=600143 reason=the checksum of the batch at offset 1 is n",
    ],
    "a byte has changed in the last segment, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=9 bytes=600143 reason=the checksum of the batch at offset 9 is n"
    ],
    "zeros in the middle of a closed segment": [
        "orders-0/00000000000000000000.log reason=there is no batch (position 300072); what follows is not read"
    ],
    "zeros in the middle of a closed segment, after a kill": [
        "orders-0/00000000000000000003.log reason=it follows offset 0, where the log ends",
        "orders-0/00000000000000000008.log reason=it follows offset 0, where the log ends",
        "log_tail_cut folder=orders-0 end_offset=1 bytes=600143 reason=there is no batch",
    ],
    "zeros in the middle of the last segment": [
        "orders-0 reason=it ends at offset 9, and everything up to 11 was on the device",
        "log_tail_cut folder=orders-0 end_offset=9 bytes=600143 reason=there is no batch",
    ],
    "half a batch at the end of a closed segment": [
        "orders-0/00000000000000000000.log reason=the batch is cut off, or none (position 600144); what follows i"
    ],
    "half a batch at the end of a closed segment, after a kill": [
        "orders-0/00000000000000000003.log reason=it follows offset 1, where the log ends",
        "orders-0/00000000000000000008.log reason=it follows offset 1, where the log ends",
        "log_tail_cut folder=orders-0 end_offset=2 bytes=299972 reason=the batch is cut off, or none",
    ],
    "half a batch at the end": [
        "orders-0 reason=it ends at offset 10, and everything up to 11 was on the device",
        "log_tail_cut folder=orders-0 end_offset=10 bytes=299972 reason=the batch is cut off, or none",
    ],
    "half a batch at the end, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=10 bytes=299972 reason=the batch is cut off, or none"
    ],
    "garbage behind the end": [
        "log_tail_cut folder=orders-0 end_offset=11 bytes=300 reason=the batch is cut off, or none"
    ],
    "garbage behind the end, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=11 bytes=300 reason=the batch is cut off, or none"
    ],
    "no indexes": [
        "orders-0/00000000000000000000.index reason=it is missing; the indexes are made of the batches again"
    ],
    "a transaction index is garbage": [
        "orders-0/00000000000000000003.txnindex reason=it is of version -23131, and version 0 is known; it is mad"
    ],
    "a transaction index is zeros": [
        "orders-0/00000000000000000003.txnindex reason=it has a transaction from offset 0 to 0; it is made of the"
    ],
    "a transaction index is cut off": [
        "orders-0/00000000000000000003.txnindex reason=its 10 bytes are no multiple of 34; it is made of the batc"
    ],
    "a transaction index has bytes too many": [
        "orders-0/00000000000000000003.txnindex reason=its 37 bytes are no multiple of 34; it is made of the batc"
    ],
    "a transaction index is backwards": [
        "orders-0/00000000000000000003.txnindex reason=the transaction that ends at 6 follows one that ends later"
    ],
    "all indexes are garbage": [
        "orders-0/00000000000000000003.txnindex reason=it is of version -23131, and version 0 is known; it is mad"
    ],
    "a snapshot of producers is garbage": [
        "orders-0/00000000000000000011.snapshot reason=it is of version -23131, and version 1 is known"
    ],
    "a snapshot of producers is empty": [
        "orders-0/00000000000000000011.snapshot reason=its 0 bytes are fewer than those of an empty snapshot"
    ],
    "leader epochs are garbage": ["orders-0/leader-epoch-checkpoint reason=it is no text"],
    "leader epochs of a newer version": [
        "orders-0/leader-epoch-checkpoint reason=it is of version '1', and version 0 is known"
    ],
    "leader epochs fall": [
        "orders-0/leader-epoch-checkpoint reason=epoch 1 from offset 4 on follows epoch 3 from 0 on"
    ],
    "leader epochs with a negative number": ["orders-0/leader-epoch-checkpoint reason='-4' is no number from 0 on"],
    "log starts are garbage": ["log-start-offset-checkpoint reason=it is no text; it is written anew"],
    "a log start behind the end": [
        "log-start-offset-checkpoint reason=orders-0 begins at offset 99 there, and ends at 11"
    ],
    "a log start behind the end, after a kill": [
        "log-start-offset-checkpoint reason=orders-0 begins at offset 99 there, and ends at 11"
    ],
    "a negative log start": ["log-start-offset-checkpoint reason='-3' is no number from 0 on; it is written anew"],
    "log starts of a newer version": [
        "log-start-offset-checkpoint reason=it is of version '1', and version 0 is known; i"
    ],
    "recovery points are garbage": ["recovery-point-offset-checkpoint reason=it is no text; it is written anew"],
    "recovery points are garbage, after a kill": [
        "recovery-point-offset-checkpoint reason=it is no text; it is written anew"
    ],
    "recovery points of a newer version": [
        "recovery-point-offset-checkpoint reason=it is of version '1', and version 0 is known; it is written anew"
    ],
    "a negative recovery point": ["recovery-point-offset-checkpoint reason='-3' is no number from 0 on; it is written"],
    "a recovery point behind the end, after a kill": [
        "orders-0 reason=it ends at offset 11, and everything up to 99 was on the device"
    ],
    "compacted offsets are garbage": ["cleaner-offset-checkpoint reason=it is no text; it is written anew"],
    "compacted offsets of a newer version": [
        "cleaner-offset-checkpoint reason=it is of version '1', and version 0 is known; it is written anew"
    ],
    "a negative compacted offset": ["cleaner-offset-checkpoint reason='-3' is no number from 0 on; it is written anew"],
    "a checkpoint has more lines than it says": [
        "log-start-offset-checkpoint reason=it announces 1 lines and has 2; it is written anew"
    ],
    "a checkpoint has fewer lines than it says": [
        "log-start-offset-checkpoint reason=it announces 2 lines and has 1; it is written anew"
    ],
    "a compaction's output before its swap": [
        "orders-0/00000000000000000000.index reason=it is missing; the indexes are made of the batches again"
    ],
    "a compaction's output, its input is leaving": [
        "orders-0/00000000000000000000.index reason=it is missing; the indexes are made of the batches again"
    ],
    "a compaction's output, half of its input is leaving": [
        "orders-0/00000000000000000000.index reason=it is missing; the indexes are made of the batches again"
    ],
    "a compaction's output is cut off": [
        "orders-0/00000000000000000000.log.swap reason=the batch is cut off, or none; the segments that it replac"
    ],
    "a compaction's output is cut off, after a kill": [
        "orders-0/00000000000000000000.log.swap reason=the batch is cut off, or none; the segments that it replac"
    ],
    "a compaction's output is cut off, its input is leaving": [
        "orders-0/00000000000000000000.index reason=it is missing; the indexes are made of the batches again",
        "orders-0/00000000000000000000.log reason=the batch is cut off, or none (position 1500513); what follows ",
    ],
    "a compaction's output is garbage": [
        "orders-0/00000000000000000000.log.swap reason=the batch is cut off, or none; the segments that it replac"
    ],
    "no metadata log": ["it has 8 logs, and no metadata: half a copy."],
    "the metadata log is empty": [
        "__cluster_metadata-0 reason=it ends at offset 0, before the snapshot __cluster_metadata-0/00000000000000",
        LOST_END,
    ],
    "the metadata log is garbage": [
        "__cluster_metadata-0 reason=it ends at offset 0, before the snapshot __cluster_metadata-0/00000000000000",
        LOST_END,
        "log_tail_cut folder=__cluster_metadata-0 end_offset=0 bytes=2710 reason=the batch is cut off, or none",
    ],
    "the metadata log is cut off": [
        LOST_END,
        "log_tail_cut folder=__cluster_metadata-0 end_offset=33 bytes=499 reason=the batch is cut off, or none",
    ],
    "the metadata log is cut off, after a kill": [
        LOST_END,
        "log_tail_cut folder=__cluster_metadata-0 end_offset=33 bytes=499 reason=the batch is cut off, or none",
    ],
    "half of the metadata log": [
        "__cluster_metadata-0 reason=it ends at offset 12, before the snapshot __cluster_metadata-0/0000000000000",
        LOST_END,
        "log_tail_cut folder=__cluster_metadata-0 end_offset=12 bytes=531 reason=the batch is cut off, or none",
    ],
    "a byte has changed in the metadata log": [
        "__cluster_metadata-0 reason=it ends at offset 12, before the snapshot __cluster_metadata-0/0000000000000",
        LOST_END,
        "log_tail_cut folder=__cluster_metadata-0 end_offset=12 bytes=1886 reason=the checksum of the batch at of",
    ],
    "a byte has changed in the metadata log, after a kill": [
        "__cluster_metadata-0 reason=it ends at offset 12, before the snapshot __cluster_metadata-0/0000000000000",
        LOST_END,
        "log_tail_cut folder=__cluster_metadata-0 end_offset=12 bytes=1886 reason=the checksum of the batch at of",
    ],
    "the metadata log begins at its snapshot": [
        "__cluster_metadata-0 reason=it begins at offset 33, and its leader epochs at 0",
    ],
    "the metadata log begins later and has no snapshot": [
        "__cluster_metadata-0 begins at offset 33 and has no snapshot."
    ],
    "the metadata log begins later and its snapshot is cut off": [
        "__cluster_metadata-0 begins at offset 33 and has no snapshot."
    ],
    "the snapshot of the metadata is garbage": [
        "__cluster_metadata-0/00000000000000000033-0000000001.checkpoint reason=Record size -1515870811 is less t"
    ],
    "the snapshot of the metadata is cut off": [
        "__cluster_metadata-0/00000000000000000033-0000000001.checkpoint reason=it has no header and footer of a "
    ],
    "a byte has changed in the snapshot of the metadata": [
        "__cluster_metadata-0/00000000000000000033-0000000001.checkpoint reason=the checksum of the batch at offs"
    ],
    "the snapshot of the metadata is empty": [
        "__cluster_metadata-0/00000000000000000033-0000000001.checkpoint reason=it has no header and footer of a "
    ],
    "a snapshot of the metadata from the future": [
        "__cluster_metadata-0 reason=it ends at offset 42, before the snapshot __cluster_metadata-0/0000000000000"
    ],
    "quorum-state is garbage": [
        "__cluster_metadata-0/quorum-state reason=it is no state of a quorum (JSON is malformed: invalid characte"
    ],
    "quorum-state of a newer version": [
        "__cluster_metadata-0/quorum-state reason=it is of version 7, and versions 0 and 1 are known; it is writt"
    ],
    "quorum-state of other voters": ["meta.properties is of node 1, and the quorum has the voters 7."],
    "a metadata.version that is newer": [
        "Broker 1 cannot be registered: feature metadata.version is finalized at 99, the broker supports 7 to 33."
    ],
    "a feature level that is newer": [
        "Broker 1 cannot be registered: feature transaction.version is finalized at 9, the broker supports 0 to 2"
    ],
    "a feature that is unknown": [
        "Broker 1 cannot be registered: feature pudding.version is finalized at 1, the broker supports 0 to 0."
    ],
    "a metadata record of a type that is not known": [
        "The metadata log cannot be read at offset 42: records of type 99 are not known."
    ],
    "a metadata record of a version that is not known": [
        "The metadata log cannot be read at offset 42: the record is of type 2 in version 9, and versions 0 to "
    ],
    "a metadata record of another frame version": [
        "at offset 42: the record cannot be read: frame_version at byte 0: there is no frame version 2."
    ],
    "a metadata record that is cut off": [
        "at offset 42: the record cannot be read: TopicRecord: name at byte 4: this string takes 8 bytes, but 0"
    ],
    "a metadata record that is empty": [
        "at offset 42: the record cannot be read: frame at byte 0: the record is shorter than its frame."
    ],
    "a metadata record of a topic that there is not": [
        "The metadata log cannot be read at offset 42: no topic has the id ID."
    ],
    "a metadata transaction ends that has not begun": [
        "The metadata log cannot be read at offset 42: no transaction is open that could end."
    ],
    "the snapshot of the metadata has a record of a type that is not known": [
        "__cluster_metadata-0/00000000000000000033-0000000001.checkpoint reason=records of type 99 are not known"
    ],
    "an older message is cut off": [
        "orders-0 reason=it ends at offset 10, and everything up to 11 was on the device",
        "log_tail_cut folder=orders-0 end_offset=10",
    ],
    "an older message is cut off, after a kill": ["log_tail_cut folder=orders-0 end_offset=10"],
    "a byte has changed in an older message, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=10 bytes=300034 reason=the checksum of the batch at offset 10"
    ],
    "an older message says that it has 10 bytes": [
        "orders-0 reason=it ends at offset 10, and everything up to 11 was on the device",
        "log_tail_cut folder=orders-0 end_offset=10",
    ],
    "an older message says that it has 10 bytes, after a kill": ["log_tail_cut folder=orders-0 end_offset=10"],
    "an older message says that it has more bytes than its segment, after a kill": [
        "log_tail_cut folder=orders-0 end_offset=10"
    ],
}
"""The warnings, or the sentence of the refusal, of those that have any."""
INSTEAD: Mapping[str, tuple[Answer, str]] = {
    "no meta.properties": (REFUSED, "Kafka has to be formatted again, and its topics are gone"),
    "meta.properties has no directory id": (WHOLE, "in Kafka the partitions have no leader afterwards"),
    "a folder in the place of a segment": (REFUSED, "Kafka goes on without the segment, and says nothing"),
    "a segment is a symbolic link to nothing": (REFUSED, "Kafka goes on without the segment"),
    "a foreign folder": (WHOLE, "Kafka refuses a folder that is no partition's"),
    "a foreign folder with the name of a topic": (WHOLE, "Kafka refuses a folder that is no partition's"),
    "a folder with the id of a topic with another name": (
        REFUSED,
        "Kafka has both; one of them is a copy, and new records may go to the wrong one",
    ),
    "two folders of one partition": (WHOLE, "Kafka takes `orders-00` for partition 0, too"),
    "a folder of a move between directories": (WHOLE, "Kafka puts the copy in the place of the partition, and fails"),
    "no partition.metadata": (WHOLE, "Kafka sets the records aside; the folder's name says whose they are"),
    "partition.metadata is empty": (WHOLE, "Kafka ends with a NullPointerException"),
    "partition.metadata of a newer version": (REFUSED, "Kafka does not look at the version"),
    "partition.metadata names the other topic": (REFUSED, "Kafka starts, and the partition has no leader"),
    "the middle segment is empty": (
        found("0-2 8-10", by_time=[8, 9]),
        "Kafka finds no offset by a timestamp in the gap",
    ),
    "the middle segment under another offset": (
        found("0-2 8-10", aborted="", by_time=[8, 9]),
        "Kafka ends with an IllegalArgumentException",
    ),
    "the middle segment a second time": (found("0-4 8-10"), "Kafka ends with an IllegalArgumentException"),
    "zeros in the middle of a closed segment": (
        found("0 3-10"),
        "Odradek finds batches from the beginning of a segment, without its index",
    ),
    "zeros in the middle of the last segment": (
        found("0-8", end=9, by_time=[4, -1]),
        "Odradek ends a log where there is no batch, after a clean stop, too",
    ),
    "half a batch at the end": (
        found("0-9", end=10),
        "Kafka trusts an index that points behind the file, and loses two whole batches",
    ),
    "garbage behind the end": (WHOLE, "Kafka ends with a CorruptRecordException"),
    "zeros behind the end": (
        WHOLE,
        "Kafka ends with a CorruptRecordException; a file that was cut too late has such zeros",
    ),
    "no indexes": (
        WHOLE,
        "Kafka makes the indexes of the one segment again; Odradek those of the segments behind, too",
    ),
    "an offset index points behind its segment": (WHOLE, "Kafka trusts the index, and skips records"),
    "a time index is empty": (WHOLE, "Kafka trusts the index"),
    "a time index has a time that is too late": (WHOLE, "Kafka trusts the index"),
    "a transaction index is garbage": (WHOLE, "Kafka ends with a KafkaException"),
    "a transaction index is cut off": (WHOLE, "Kafka trusts the index, and shows aborted records as committed"),
    "a transaction index is backwards": (WHOLE, "Kafka trusts the index"),
    "a transaction index is garbage, after a kill": (WHOLE, "Kafka ends with a KafkaException"),
    "all indexes are garbage": (WHOLE, "Kafka ends with a KafkaException"),
    "leader epochs are garbage": (WHOLE, "Kafka gives up the directory"),
    "leader epochs of a newer version": (WHOLE, "Kafka gives up the directory"),
    "leader epochs with a negative number": (WHOLE, "Kafka gives up the directory"),
    "log starts are garbage": (WHOLE, "Kafka gives up the directory"),
    "log starts of a newer version": (WHOLE, "Kafka gives up the directory"),
    "recovery points are garbage": (WHOLE, "Kafka gives up the directory"),
    "recovery points are garbage, after a kill": (WHOLE, "Kafka gives up the directory"),
    "recovery points of a newer version": (WHOLE, "Kafka gives up the directory"),
    "high watermarks are garbage": (
        WHOLE,
        "Kafka gives up the directory; everything in a log of one replica is committed",
    ),
    "high watermarks of a newer version": (
        WHOLE,
        "Kafka gives up the directory; everything in a log of one replica is committed",
    ),
    "compacted offsets are garbage": (WHOLE, "Kafka gives up the directory"),
    "compacted offsets of a newer version": (WHOLE, "Kafka gives up the directory"),
    "a checkpoint has more lines than it says": (WHOLE, "Kafka gives up the directory"),
    "a checkpoint has fewer lines than it says": (WHOLE, "Kafka gives up the directory"),
    "a log start behind the end": (
        found("", start=11, aborted="", by_time=[-1, -1]),
        "Kafka deletes the segments, and begins at the offset of the checkpoint",
    ),
    "a log start behind the end, after a kill": (
        found("", start=11, aborted="", by_time=[-1, -1]),
        "Kafka deletes the segments, and begins at the offset of the checkpoint",
    ),
    "a compaction's output before its swap": (
        WHOLE,
        "Kafka makes the other indexes again, and not that of aborted transactions",
    ),
    "a compaction's output, its input is leaving": (
        WHOLE,
        "Kafka makes the other indexes again, and not that of aborted transactions",
    ),
    "a compaction's output, half of its input is leaving": (
        WHOLE,
        "Kafka makes the other indexes again, and not that of aborted transactions",
    ),
    "a compaction's output is cut off": (WHOLE, "Kafka puts the output in the place of its input"),
    "a compaction's output is cut off, after a kill": (
        WHOLE,
        "Kafka puts the output in the place of its input, and cuts the log there",
    ),
    "a compaction's output is cut off, its input is leaving": (
        found("0-6 8-10"),
        "Kafka makes the other indexes again, and not that of aborted transactions",
    ),
    "a compaction's output is garbage": (WHOLE, "Kafka puts the output in the place of its input"),
    "no metadata log": (REFUSED, "Kafka begins a new cluster, and sets all partitions aside"),
    "the snapshot of the metadata is garbage": (
        WHOLE,
        "the log has everything from offset 0 on, and Kafka reads the snapshot first",
    ),
    "the snapshot of the metadata is cut off": (
        WHOLE,
        "the log has everything from offset 0 on, and Kafka reads the snapshot first",
    ),
    "a byte has changed in the snapshot of the metadata": (
        WHOLE,
        "the log has everything from offset 0 on, and Kafka reads the snapshot first",
    ),
    "the snapshot of the metadata is empty": (
        WHOLE,
        "the log has everything from offset 0 on, and Kafka reads the snapshot first",
    ),
    "the snapshot of the metadata has a record of a type that is not known": (
        WHOLE,
        "the log has everything from offset 0 on, and Kafka reads the snapshot first",
    ),
    "quorum-state is garbage": (WHOLE, "a quorum of one needs no vote: the epoch is that of the log"),
    "quorum-state is empty": (WHOLE, "a quorum of one needs no vote: the epoch is that of the log"),
    "quorum-state of a newer version": (WHOLE, "a quorum of one needs no vote: the epoch is that of the log"),
    "quorum-state of other voters": (REFUSED, "Kafka takes the voters of its configuration, and Odradek has none"),
    "an older message is cut off": (found("0-9", end=10), "Kafka goes by the index, and finds no whole message there"),
    "an older message says that it has 10 bytes": (found("0-9", end=10), "Kafka goes by the index, and fails"),
    **{
        f"an older message {says}": (WHOLE, "Kafka decompresses a message to know where it begins; here clients see it")
        for says in (
            "says that it is compressed",
            "says that it is compressed, after a kill",
            "says a codec that there is not",
            "says a codec that there is not, after a kill",
            "in a closed segment says that it is compressed",
        )
    },
}
"""The outcome of Odradek where it is not Kafka's, and why."""


TABLE = Table(CASES, RECORDED, make_directory, make_empty_directory, END, TOLD, INSTEAD)

if __name__ == "__main__":
    main(TABLE)
