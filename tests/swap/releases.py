"""The files of a data directory that each release of Kafka writes for the same work, and those of Odradek as it.

`python -m tests.swap.releases record [RELEASE …]` plays it to real brokers, whose jars Maven brings once, and writes
`releases.json`.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from struct import unpack_from

import msgspec
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from msgspec import Struct
from tests.oracle.releases.real import VERSIONS, ReleasedKafka, has_controller

from odradek.log.metadata_log import METADATA_FOLDER
from odradek.net.client import BlockingClient
from odradek.records.batch import batches
from odradek.records.record import Record, iterate_records
from odradek.records.state import decode_metadata
from odradek.wire.messages.metadata_request import MetadataRequest

__all__ = ["CONFIG", "RECORDED", "RELEASES", "Seen", "Written", "released", "see", "work", "written"]

RECORDED = Path(__file__).with_suffix(".json")
RELEASES = tuple(filter(has_controller, VERSIONS))
"""Those that keep their metadata in a log; older ones have ZooKeeper."""
CONFIG = {
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}
ORDERS = "orders"
TIMEOUT_S = 60
KEY_NAMES = {0: "TransactionLog", 1: "OffsetCommit", 2: "GroupMetadata"}
"""The records of coordinators that this work writes; the kinds of both logs do not overlap in it."""
Versions = Mapping[str, Sequence[int]]


class Written(Struct):
    """The formats in a directory."""

    meta: Sequence[str]
    """The names in `meta.properties`."""
    clean_stop: Sequence[str]
    """The names in the mark of a clean stop; none where the file is empty."""
    coordinators: Versions
    """Versions of the values in the logs of coordinators."""
    metadata: Versions
    """Versions of the records in the metadata log."""


class Seen(Struct):
    """What a client reads."""

    values: Sequence[str]
    """Committed records of the topic, with their offsets."""
    offset: int
    """The committed offset of the group."""


def released(release: str, root: Path, data: Path) -> ReleasedKafka:
    """A real broker of the release on a directory."""
    kafka = ReleasedKafka(release, properties=CONFIG)
    kafka.directory.rmdir()
    kafka.directory, kafka.data = root, data
    kafka.properties |= kafka.addresses()
    kafka.start_timeout_s = 300
    return kafka


def work(bootstrap: str, number: int) -> None:
    """Transactions that commit and abort with offsets in them, a group with a member, topics that come and go."""
    settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap, "log_level": 0}
    _wait_for(bootstrap, () if number == 1 else (ORDERS,))
    admin = AdminClient(settings)
    for names in ([ORDERS, "gone"] if number == 1 else ["gone"],):
        for made in admin.create_topics([NewTopic(name, 1, 1) for name in names]).values():
            made.result(TIMEOUT_S)
    for gone in admin.delete_topics(["gone"]).values():
        gone.result(TIMEOUT_S)
    consumer = Consumer({**settings, "group.id": "books", "enable.auto.commit": False})
    consumer.subscribe([ORDERS])
    while not consumer.assignment():
        consumer.poll(0.1)
    till = Producer({**settings, "transactional.id": "till"})
    till.init_transactions(TIMEOUT_S)
    for offset, commits in ((number, True), (-1, False), (10 * number, True)):
        till.begin_transaction()
        till.produce(ORDERS, f"{number} {offset}")
        till.flush(TIMEOUT_S)
        till.send_offsets_to_transaction(
            [TopicPartition(ORDERS, 0, abs(offset))], consumer.consumer_group_metadata(), TIMEOUT_S
        )
        (till.commit_transaction if commits else till.abort_transaction)(TIMEOUT_S)
    consumer.close()


def _wait_for(bootstrap: str, topics: Sequence[str]) -> None:
    """Until the topics have leaders. A client that asks too early keeps for a while that there are none."""
    with BlockingClient(bootstrap, client_id="look", timeout_s=TIMEOUT_S) as client:
        while True:
            found = client.ask(MetadataRequest(topics=None), 9).topics
            led = {each.name for each in found if all(not part.error_code for part in each.partitions)}
            if led >= {*topics}:
                return


def see(bootstrap: str) -> Seen:
    settings = {"bootstrap.servers": bootstrap, "log_level": 0, "enable.auto.commit": False}
    _wait_for(bootstrap, (ORDERS,))
    reader = Consumer({**settings, "group.id": "reader", "enable.partition.eof": True})
    reader.assign([TopicPartition(ORDERS, 0, 0)])
    values = []
    while (message := reader.poll(TIMEOUT_S)) is not None and message.error() is None:
        values.append(f"{message.offset()}: {(message.value() or b'').decode()}")
    reader.close()
    books = Consumer({**settings, "group.id": "books"})
    [committed] = books.committed([TopicPartition(ORDERS, 0)], timeout=TIMEOUT_S)
    books.close()
    return Seen(values, committed.offset)


def written(path: Path) -> Written:
    """The formats in a directory that a broker has left cleanly."""
    lines = (path / "meta.properties").read_text().splitlines()
    mark = (path / ".kafka_cleanshutdown").read_bytes()
    metadata, coordinators = dict[str, set[int]](), dict[str, set[int]]()
    for record in _records(path / METADATA_FOLDER):
        data = record.value or b""
        metadata.setdefault(type(decode_metadata(data)).__name__, set()).add(data[2])
    for log in (*path.glob("__transaction_state-*"), *path.glob("__consumer_offsets-*")):
        for record in _records(log):
            if record.value is not None:
                [kind], [version] = unpack_from(">h", record.key or b""), unpack_from(">h", record.value)
                coordinators.setdefault(KEY_NAMES[kind], set()).add(version)
    return Written(
        sorted(line.partition("=")[0] for line in lines if not line.startswith("#")),
        sorted(json.loads(mark)) if mark else [],
        _sorted(coordinators),
        _sorted(metadata),
    )


def _records(folder: Path) -> Iterator[Record]:
    for log in sorted(folder.glob("*.log")):
        for batch in batches(memoryview(log.read_bytes())):
            if not batch.is_control:
                yield from iterate_records(batch)


def _sorted(found: Mapping[str, set[int]]) -> Versions:
    return {name: sorted(found[name]) for name in sorted(found)}


def record(releases: Sequence[str]) -> None:
    """Let real brokers do the work, and keep what they have written."""
    known = json.loads(RECORDED.read_bytes()) if RECORDED.exists() else {}
    for release in releases or RELEASES:
        with tempfile.TemporaryDirectory() as folder:
            kafka = released(release, Path(folder) / "kafka", Path(folder) / "data")
            try:
                kafka.start()
                work(kafka.bootstrap, 1)
            finally:
                kafka.stop()
            known[release] = msgspec.to_builtins(written(kafka.data))
        print(release, json.dumps(known[release]), flush=True)
        ordered = {each: known[each] for each in RELEASES if each in known}
        RECORDED.write_text(json.dumps(ordered, indent=1) + "\n")


if __name__ == "__main__":
    {"record": record}[sys.argv[1]](sys.argv[2:])
