"""Directories with messages of magic 0 and 1, and what a real Kafka 4.4 answers about them.

No broker writes such messages any more, so they are put into the folders of partitions while nobody runs there. Kafka's
own classes have written the messages of `tests/vectors` that `message_set` is held against.
`python -m tests.swap.old_sets record` asks a real Kafka, and writes `old_sets.json`.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from tests.oracle.real_kafka import free_port
from tests.swap.look import Brokers, NotReady
from tests.swap.releases import released
from tests.swap.systems import Kafka, System, directory, shared

from odradek.log.files.checkpoints import write_epochs
from odradek.log.files.names import LEADER_EPOCHS
from odradek.records.batch import DELETE_HORIZON, TimestampType
from odradek.records.compression import Compression
from odradek.records.legacy import batches_of_log
from odradek.records.message_set import message_set
from odradek.records.record import Record, build_batch, iterate_records
from odradek.testing import Cluster
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.offset_for_leader_epoch_request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)

__all__ = [
    "AGED",
    "CLEANED",
    "BEFORE",
    "DELETED",
    "QUIET",
    "READ",
    "RECORDED",
    "SOON",
    "cleaned",
    "fetched_before_batches",
    "files_of",
    "indexes",
    "make_directory",
    "make_directory_of",
    "plant",
    "read",
    "segments",
    "story",
    "tell",
    "wait_until_cleaned",
]

RECORDED = Path(__file__).with_suffix(".json")
READ, CLEANED, AGED = "old", "oldkeys", "aged"
BEGAN = 1_700_000_000_000
SECOND_MS, DAY_MS = 1000, 86_400_000
TIMEOUT_S = 60
BEFORE = "3.9"
"""A release that serves Fetch below version 4."""
SPECIAL = (-6, -5, -4, -3, -2, -1, 0)
TIMES = range(-1, 25)
EPOCHS = (-1, 0)
"""The later ones depend on how often the directory was started."""
VERSIONS = range(4, 19)
BY_ID_SINCE = 13
START_SINCE = 5
BYTES = 1_000_000
DELETED = {0: 4, 1: 7, 2: 7, 3: 2, 4: 5, 5: 8, 6: 30}
"""By partition: where DeleteRecords lets it begin, within messages and between them."""
GZIP, SNAPPY, LZ4 = Compression.GZIP, Compression.SNAPPY, Compression.LZ4
QUIET = {"log.cleaner.enable": "false", "log.retention.check.interval.ms": "1000000000"}
"""Settings in which nothing is compacted, and nothing goes."""
SOON = {"log.retention.check.interval.ms": "500", "log.initial.task.delay.ms": "1000"}
TOPICS = {
    READ: (7, {}),
    CLEANED: (8, {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
    AGED: (3, {"retention.ms": str(DAY_MS)}),
}
"""Partitions and configs."""
Segments = Mapping[int, bytes]
"""The bytes of each segment, by its base offset."""


def _some(offsets: Sequence[int], times: Sequence[int] | None = None) -> list[Record]:
    stamps = offsets if times is None else times
    return [
        Record(offset, BEGAN + stamp * SECOND_MS, f"k{offset}".encode(), f"v{offset}".encode())
        for offset, stamp in zip(offsets, stamps, strict=True)
    ]


def _keyed(first: int, keys: str, *, is_empty: str = "") -> list[Record]:
    """A record of each key; `_` is none. The value of the last one of the key `is_empty` is null."""
    last = keys.rfind(is_empty) if is_empty else -1
    return [
        Record(
            first + at,
            BEGAN + (first + at) * SECOND_MS,
            None if key == "_" else key.encode(),
            None if at == last else f"{key}-{first + at}".encode() * 3,
        )
        for at, key in enumerate(keys)
    ]


def _appended(records: Sequence[Record], seconds: int, compression: Compression = Compression.NONE) -> bytes:
    return message_set(
        records,
        magic=1,
        compression=compression,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=BEGAN + seconds * SECOND_MS,
    )


def segments(*, now: int) -> dict[str, Segments]:
    """The segments of each partition."""
    of = message_set
    read: list[Segments] = [
        {0: of(_some(range(10)), magic=0), 10: of(_some(range(10, 20)), magic=1)},
        {
            0: of(_some(range(5)), magic=0, compression=GZIP)
            + of(_some(range(5, 10)), magic=0, compression=SNAPPY)
            + of(_some(range(10, 15)), magic=0, compression=LZ4)
        },
        {
            0: of(_some(range(5), [1, 5, 2, 5, 3]), magic=1, compression=GZIP)
            + of(_some(range(5, 10)), magic=1, compression=SNAPPY)
            + of(_some(range(10, 15)), magic=1, compression=LZ4)
        },
        {0: _appended(_some(range(5)), 7) + _appended(_some(range(5, 10)), 9, GZIP)},
        {
            0: of(_some(range(3)), magic=0)
            + of(_some(range(3, 7)), magic=1, compression=GZIP)
            + build_batch(_some([7, 8]), base_offset=7)
            + of(_some([9, 10]), magic=1)
        },
        {  # as compaction by an older broker leaves them
            0: of(_some([0, 3]), magic=0)
            + of(_some([5, 7, 9]), magic=0, compression=GZIP)
            + of(_some([12, 15]), magic=1, compression=GZIP)
            + of(_some([18]), magic=1)
        },
        {
            0: of(_some(range(60)), magic=0),
            60: of(_some(range(60, 120), [(number * 7) % 60 for number in range(60)]), magic=1),
            120: b"".join(of(_some(range(at, at + 10)), magic=1, compression=GZIP) for at in range(120, 200, 10)),
        },
    ]
    keyed: list[Segments] = [
        {
            0: of(_keyed(0, "abacd"), magic=magic, compression=codec),
            5: of(_keyed(5, "bb_ec", is_empty="c"), magic=magic, compression=codec),
            10: of(_keyed(10, "af"), magic=magic, compression=codec),
        }
        for magic, codec in ((0, Compression.NONE), (1, Compression.NONE), (0, GZIP), (1, GZIP), (1, SNAPPY), (0, LZ4))
    ]
    keyed += [
        {  # the last record of a message goes, too
            0: of(_keyed(0, "abc"), magic=1, compression=GZIP),
            3: of(_keyed(3, "cdded"), magic=1, compression=GZIP),
            8: of(_keyed(8, "dxd"), magic=1, compression=GZIP),
            11: of(_keyed(11, "d"), magic=1),
        },
        {0: _appended(_keyed(0, "aabcb"), 50, GZIP) + _appended(_keyed(5, "a"), 51), 6: of(_keyed(6, "z"), magic=1)},
    ]
    aged: list[Segments] = [
        {0: of(_some(range(3)), magic=1), 3: message_set([Record(3, now, b"k", b"v")], magic=1)},
        {0: of(_some(range(3)), magic=0), 3: of(_some([3]), magic=0)},
        {0: of(_some(range(3)), magic=0), 3: of(_some([3]), magic=0)},
    ]
    return {
        f"{topic}-{index}": each
        for topic, partitions in ((READ, read), (CLEANED, keyed), (AGED, aged))
        for index, each in enumerate(partitions)
    }


def plant(data: Path, partitions: Mapping[str, Segments]) -> None:
    """Put these segments into the folders of partitions without records, where nobody runs."""
    for name, planted in partitions.items():
        folder = data / name
        for file in folder.iterdir():
            if file.suffix in (".log", ".index", ".timeindex", ".snapshot"):
                file.unlink()
        for base, content in planted.items():
            (folder / f"{base:020d}.log").write_bytes(content)


def make_directory(data: Path, *, brokers: int = 1) -> None:
    """The directory of a stopped broker with all of that; of several, the last to stop has it, and the others lack it.

    The files of the last partition are ten days old.
    """
    with Cluster(data_dir=data, brokers=brokers, config=shared(brokers)) as cluster:
        new = [NewTopic(name, count, brokers, config=dict(config)) for name, (count, config) in TOPICS.items()]
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        for made in admin.create_topics(new).values():
            made.result(TIMEOUT_S)
    if brokers > 1:
        for folder in data.glob("broker-*/*"):
            if folder.name.rpartition("-")[0] in TOPICS:
                # Brokers that were no leaders yet have no epochs.
                (folder / LEADER_EPOCHS).write_bytes(write_epochs([(0, 0)]))
        data = data / f"broker-{brokers}"
    now = int(time.time() * 1000)
    plant(data, segments(now=now))
    past = now / 1000 - 10 * DAY_MS / 1000
    for file in (data / f"{AGED}-2").glob("*.log"):
        os.utime(file, (past, past))


# ---------------------------------------------------------------------- what clients see


def shown(records: bytes | None) -> str:
    """Magic and last offset of each batch, as `0:4 1:9`."""
    return " ".join(f"{batch.magic}:{batch.last_offset}" for batch in batches_of_log(memoryview(records or b"")))


def _fetched(brokers: Brokers, index: int, offset: int, version: int = 11, *, size: int = BYTES) -> list[Any]:
    """Error, high watermark, last stable offset, log start, and the records."""
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=size)
    named = {"topic": READ} if version < BY_ID_SINCE else {"topic_id": _id_of(brokers, READ)}
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=BYTES,
        isolation_level=1,
        session_epoch=-1,
        topics=[FetchTopic(partitions=[partition], **named)],
    )
    [[one]] = [topic.partitions for topic in brokers.leader_of(READ, index).ask(request, version).responses]
    start = one.log_start_offset if version >= START_SINCE else -1
    return [one.error_code, one.high_watermark, one.last_stable_offset, start, bytes(one.records or b"")]


def _id_of(brokers: Brokers, topic: str) -> bytes:
    found = brokers.any.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    return bytes(found.topics[0].topic_id)


def _listed(brokers: Brokers, topic: str, index: int, timestamp: int, version: int = 11) -> list[int]:
    """Error, offset, timestamp; the epoch of the last offset depends on how often the directory was started."""
    partition = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])])
    [[one]] = [found.partitions for found in brokers.leader_of(topic, index).ask(request, version).topics]
    return [one.error_code, one.offset, one.timestamp, *([one.leader_epoch] if timestamp != -1 else [])]


def _epoch_end(brokers: Brokers, index: int, epoch: int) -> list[int]:
    partition = OffsetForLeaderPartition(partition=index, leader_epoch=epoch)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic=READ, partitions=[partition])]
    )
    [[one]] = [found.partitions for found in brokers.leader_of(READ, index).ask(request, 4).topics]
    return [one.error_code, one.leader_epoch, one.end_offset]


def _look(brokers: Brokers, index: int, whole: bytes) -> dict[str, Any]:
    """A partition, by offset and by time; what is read are bytes of its files as they are."""
    start, end = _listed(brokers, READ, index, -2)[1], _listed(brokers, READ, index, -1)[1]
    at: dict[str, Any] = {}
    for offset in range(end + 2):
        *header, records = _fetched(brokers, index, offset)
        *_, first = _fetched(brokers, index, offset, size=1)
        assert records in whole
        assert records.startswith(first)
        at[str(offset)] = [*header, shown(records), shown(first)]
    *_, expected = _fetched(brokers, index, start)
    same = [version for version in VERSIONS if _fetched(brokers, index, start, version)[-1] == expected]
    return {
        "at": at,
        "versions with the same bytes": same,
        "by time": {str(time): _listed(brokers, READ, index, BEGAN + time * SECOND_MS) for time in TIMES},
        "special": {str(special): _listed(brokers, READ, index, special) for special in SPECIAL},
        "epochs": {str(epoch): _epoch_end(brokers, index, epoch) for epoch in EPOCHS},
    }


def files_of(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.log")))


def _cut_at(bootstrap: str, topic: str, offsets: Mapping[int, int]) -> dict[str, int]:
    """Let partitions begin there: the low watermark of each."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = [TopicPartition(topic, index, offset) for index, offset in offsets.items()]
    return {
        str(one.partition): gone.result(TIMEOUT_S).low_watermark for one, gone in admin.delete_records(asked).items()
    }


def _led(bootstrap: str, *topics: str) -> Brokers:
    """As soon as all partitions have a leader; of these topics alone, if there are any."""
    ends = time.monotonic() + TIMEOUT_S
    while True:
        brokers = Brokers(bootstrap)
        try:
            for topic in topics or TOPICS:
                for index in range(TOPICS[topic][0]):
                    assert 0 == _listed(brokers, topic, index, -1, 7)[0]
        except (NotReady, AssertionError):
            brokers.__exit__()
            assert time.monotonic() < ends
            time.sleep(0.1)
        else:
            return brokers


def read(bootstrap: str, data: Path) -> dict[str, Any]:
    """What clients see; the bytes are those of these files."""
    with _led(bootstrap) as brokers:
        return {str(index): _look(brokers, index, files_of(data / f"{READ}-{index}")) for index in DELETED}


def story(bootstrap: str, data: Path) -> dict[str, Any]:
    """What clients see, then append, and delete."""
    found: dict[str, Any] = {"read": read(bootstrap, data)}
    with _led(bootstrap):
        appended: dict[str, int] = {}
        producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "log_level": 0})

        def delivered(error: KafkaError | None, message: Message) -> None:
            appended[str(message.partition())] = -1 if error is not None else message.offset() or 0

        for index in DELETED:
            time_ms = BEGAN + 1000 * SECOND_MS
            producer.produce(READ, "new", partition=index, timestamp=time_ms, on_delivery=delivered)
        assert 0 == producer.flush(TIMEOUT_S)
        found["appended"] = dict(sorted(appended.items()))
        found["deleted"] = _cut_at(bootstrap, READ, DELETED)
    found["read afterwards"] = read(bootstrap, data)
    return found


def make_directory_of(release: str, data: Path) -> None:
    """The directory of a stopped broker of an older release, with the topic that is read."""
    with Cluster(data_dir=data, as_kafka=release, topics=[f"{READ}:{len(DELETED)}"]):
        pass
    plant(data, {name: each for name, each in segments(now=0).items() if name.startswith(f"{READ}-")})


def fetched_before_batches(bootstrap: str) -> dict[str, str]:
    """A digest of the answers to Fetch of each partition in each version up to 4; below 4 records are converted down.

    Magic, offsets, attributes, times and records are in it, and the bytes of what is not compressed.
    """
    found: dict[str, str] = {}
    with Brokers(bootstrap) as brokers:
        for index in DELETED:
            for version in range(5):
                told = [_converted(brokers, index, offset, version) for offset in (*range(21), 60, 61, 125)]
                found[f"{index} in version {version}"] = sha256(json.dumps(told).encode()).hexdigest()
    return found


def _converted(brokers: Brokers, index: int, offset: int, version: int) -> list[Any]:
    error, high_watermark, *_, records = _fetched(brokers, index, offset, version)
    told = [
        [
            *(batch.magic, batch.base_offset, batch.last_offset, batch.attributes, batch.max_timestamp),
            [
                [record.offset, record.timestamp, str(record.key), str(record.value)]
                for record in iterate_records(batch)
            ],
            "" if batch.compression else batch.view.hex(),
        ]
        for batch in batches_of_log(memoryview(records))
    ]
    return [error, high_watermark, told]


# ---------------------------------------------------------------------- what cleaners and retention leave


def cleaned(data: Path) -> dict[str, Any]:
    """The segments of the compacted topic, and of that whose records are old."""
    return {
        folder.name: {file.stem.lstrip("0") or "0": [*_described(file)] for file in sorted(folder.glob("*.log"))}
        for topic in (CLEANED, AGED)
        for folder in sorted(data.glob(f"{topic}-*"))
    }


def _described(file: Path) -> Iterator[Any]:
    """Each batch with its records; bytes and sizes depend on the library that compresses."""
    for batch in batches_of_log(memoryview(file.read_bytes())):
        horizon = batch.attributes & DELETE_HORIZON
        yield [
            *(batch.magic, batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.attributes),
            *("horizon" if horizon else _relative(batch.base_timestamp), _relative(batch.max_timestamp)),
            [
                [record.offset, _relative(record.timestamp), *map(_text, (record.key, record.value))]
                for record in iterate_records(batch)
            ],
        ]


def _relative(timestamp: int) -> int | str:
    seconds = (timestamp - BEGAN) // SECOND_MS
    return timestamp if timestamp < 0 else "now" if seconds > 1000 else seconds


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()


def indexes(data: Path) -> dict[str, Any]:
    """The entries of the indexes of logs that are not compressed, whose positions are the same everywhere."""
    return {
        f"{READ}-6/{base}{suffix}": (data / f"{READ}-6" / f"{base:020d}{suffix}").read_bytes().hex()
        for base in (0, 60)
        for suffix in (".index", ".timeindex")
    }


def wait_until_cleaned(data: Path) -> None:
    """Until the segments that can go have gone, and their files."""
    ends = time.monotonic() + TIMEOUT_S
    while True:
        bases = [
            sorted(int(file.stem) for file in folder.glob("*.log")) for folder in sorted(data.glob(f"{CLEANED}-*"))
        ]
        gone = [(data / f"{AGED}-0" / f"{0:020d}.log"), (data / f"{AGED}-2" / f"{3:020d}.log")]
        joined = all(len(each) == 2 for each in bases)
        if joined and not any(file.exists() for file in gone) and not any(_is_old_behind(data)):
            return
        assert time.monotonic() < ends, (bases, gone)
        time.sleep(0.1)


def _is_old_behind(data: Path) -> Iterator[bool]:
    """Whether the first segment of a compacted log still has a message of magic 0 or 1."""
    for folder in data.glob(f"{CLEANED}-*"):
        first, *_ = sorted(folder.glob("*.log"))
        yield any(batch.magic < 2 for batch in batches_of_log(memoryview(first.read_bytes())))


def tell(system: System, root: Path) -> dict[str, Any]:
    """Both parts of the story: of a system that leaves everything as it is, and of one that cleans up."""
    system.start()
    try:
        return story(system.bootstrap, directory(root))
    finally:
        system.stop()


def record() -> None:
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder) / "base"
        make_directory(base)
        root = Path(folder) / "quiet"
        shutil.copytree(base, directory(root))
        told = tell(Kafka(root, free_port(), settings=QUIET), root)
        told["indexes"] = indexes(directory(root))
        root = Path(folder) / "soon"
        shutil.copytree(base, directory(root))
        kafka = Kafka(root, free_port(), settings=SOON)
        kafka.start()
        try:
            wait_until_cleaned(directory(root))
        finally:
            kafka.stop()
        told["cleaned"] = cleaned(directory(root))
        root = Path(folder) / "before"
        make_directory_of(BEFORE, directory(root))
        old = released(BEFORE, root, directory(root))
        old.start()
        try:
            with _led(old.bootstrap, READ):
                told["fetched before batches"] = fetched_before_batches(old.bootstrap)
        finally:
            old.stop()
    RECORDED.write_text("".join(_lines(told)) + "\n")


def _lines(value: Any, depth: int = 0) -> Iterator[str]:
    """As JSON, with a line for each entry of the inner objects."""
    if not isinstance(value, dict):
        yield json.dumps(value)
        return
    yield "{"
    for number, (key, each) in enumerate(value.items()):
        yield f"{',' if number else ''}\n{' ' * (depth + 1)}{json.dumps(key)}: "
        yield from _lines(each, depth + 1)
    yield f"\n{' ' * depth}}}"


if __name__ == "__main__":
    {"record": record}[sys.argv[1]]()
