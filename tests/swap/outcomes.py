"""The outcome of a start on a data directory: a refusal, or the logs that clients see, and the lines of the log."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from confluent_kafka import Producer
from msgspec import Struct
from tests.net.warned import warned
from tests.oracle.real_kafka import free_port
from tests.swap.systems import SHARED, Kafka, directory

from odradek.cli.usage import UsageError
from odradek.net.client import BlockingClient
from odradek.records.batch import InvalidBatch
from odradek.records.legacy import batches_of_log
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata_request import MetadataRequest

__all__ = [
    "FOLDER",
    "LOOKED_FOR",
    "ORDERS",
    "OTHER",
    "REFUSES",
    "STARTS",
    "Answer",
    "Lines",
    "Seen",
    "answer_of_kafka",
    "answer_of_odradek",
    "append",
    "plain",
    "seen",
    "shortened",
    "started",
    "told_lines",
]

TIMEOUT_S = 30
LEADER_S = 30
RESTS_S = 6
CLEANS = timedelta(seconds=2)
"""A pass of the cleaner of Odradek is over then (`log.cleaner.backoff.ms` of `SHARED`)."""
LINE, LINES = 300, 4
"""Characters of a line, and lines, that are kept."""
ORDERS, OTHER = "orders", "other"
FOLDER = f"{ORDERS}-0"
LOOKED_FOR = (4, 9)
STARTS, REFUSES, STOPS = "starts", "refuses", "stops"
_LINE = re.compile(r"^\[[^]]*\] ((?:WARN|ERROR|FATAL) .*(?:\n[a-zA-Z.$]+(?:Exception|Error): .*)?)$", re.MULTILINE)
"""A line, and the exception that it tells of."""
_OF_FILES = (
    *("storage.internals", "LogManager", "LogLoader", "LogDirFailureChannel", "MetadataLoader", "raft", "snapshot"),
    *("FaultHandler", "BrokerMetadataPublisher", "KafkaRaftServer", "kafka.Kafka$", "checkpoint", "ReplicaManager"),
    *("SharedServer", "KafkaMetadataLog", "StorageTool", "common.utils"),
)


class Seen(Struct, omit_defaults=True):
    """The content of a topic's log, as clients see it."""

    start: int
    end: int
    offsets: str
    """The readable offsets, as ranges."""
    aborted: str
    """The first offsets of the aborted transactions that a consumer of committed records is told of."""
    by_time: Sequence[int] = ()
    """The offsets that are found by the timestamps of `LOOKED_FOR`."""
    unreadable: Mapping[str, str] = {}
    """Offsets that cannot be read, and why."""
    appended: int = -1
    """The offset of a record that is produced afterwards; -1 if that fails."""


class Answer(Struct, omit_defaults=True):
    """The outcome of a start."""

    how: str
    logs: Mapping[str, Seen] = {}
    says: Sequence[str] = ()
    """Warnings, errors, or the reason of a refusal."""


class Lines:
    """A log that keeps warnings and errors."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def debug(self, event: str, **fields: object) -> None: ...

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append(" ".join([event, *(f"{name}={value}" for name, value in fields.items())]))

    error = warning


def answer_of_odradek(path: Path, times: Sequence[int], *, appends: bool = True, settles: bool = False) -> Answer:
    """Start it on a directory, look at it, and stop it; with `settles` it is looked at when its cleaner rests."""
    lines = Lines()
    try:
        with warned() as told, Cluster(data_dir=path, config=SHARED, log=lines, seed=1) as cluster:
            if settles:
                cluster.advance(CLEANS)
            logs = look(cluster.bootstrap, times, appends=appends)
    except UsageError as refusal:
        return Answer(REFUSES, says=[plain(str(refusal), path)])
    logged = [line for line in lines.lines if not line.startswith("broker_fenced")]
    # What the log says is told to the author of a test, too.
    assert sorted(logged) == sorted(told)
    return Answer(STARTS, logs, [plain(line, path) for line in logged])


def answer_of_kafka(root: Path, times: Sequence[int], *, settles: bool = False) -> Answer:
    """Start a real Kafka on a directory, look at it, and stop it; with `settles` when its cleaner rests."""
    kafka = Kafka(root, free_port())
    how, logs, said = started(kafka, root, times, settles=settles)
    return Answer(how, logs, shortened(said, 0))


def started(
    kafka: Kafka, root: Path, times: Sequence[int], *, settles: bool = False
) -> tuple[str, dict[str, Seen], list[str]]:
    how, logs = REFUSES, {}
    try:
        kafka.nodes[0].start_timeout_s = 300
        kafka.start()
        how = STOPS
        if settles:
            rest(kafka.bootstrap, times)
        logs = look(kafka.bootstrap, times)
        how = STARTS
    except (AssertionError, RuntimeError, OSError):
        pass
    finally:
        kafka.kill()
    said = told_lines((root / "broker.log").read_text())
    if how != STARTS:
        said = [line for line in said if not line.startswith("WARN")]
    return how, logs, [plain(line, directory(root)) for line in said]


def shortened(said: Sequence[str], number: int) -> list[str]:
    lines = (re.sub(rf"\b{ORDERS}-{number}\b", FOLDER, line)[:LINE] for line in said)
    return list(dict.fromkeys(lines))[:LINES]


def told_lines(log: str) -> list[str]:
    """The warnings and errors that are about files."""
    return [line for line in _LINE.findall(log) if _is_told(line)]


def _is_told(line: str) -> bool:
    return any(word in line.partition("\n")[0].rpartition("(")[2] for word in _OF_FILES)


def plain(line: str, path: Path) -> str:
    """A line without what changes from run to run."""
    line = line.replace("\n", ": ").replace(os.fspath(path), "DIR").replace(os.fspath(path.parent), "ROOT")
    line = re.sub(r"[0-9a-f]{32}", "UNIQUE", line)
    line = re.sub(r"\d+ ?ms", "some ms", line)
    return re.sub(r"(?<![\w-])(?=[\w-]*[A-Z])(?=[\w-]*[a-z0-9])[\w-]{22}(?![\w-])", "ID", line)


def look(bootstrap: str, times: Sequence[int], *, appends: bool = True) -> dict[str, Seen]:
    """The logs of the partitions of all topics: `TOPIC-PARTITION`."""
    with BlockingClient(bootstrap, client_id="look", timeout_s=TIMEOUT_S) as client:
        led = led_partitions(client)
        logs = {f"{topic}-{index}": seen(client, topic, index, times) for topic, index in led}
    if appends:
        for topic, index in led:
            logs[f"{topic}-{index}"].appended = append(bootstrap, topic, index)
    return logs


def rest(bootstrap: str, times: Sequence[int]) -> None:
    """Wait until logs have stayed as they are for a while."""
    before: dict[str, Seen] = {}
    while (now := look(bootstrap, times, appends=False)) != before:
        before = now
        time.sleep(RESTS_S)


def led_partitions(client: BlockingClient) -> list[tuple[str, int]]:
    """The partitions with a leader, as soon as all have one; those that have one in the end."""
    ends = time.monotonic() + LEADER_S
    while True:
        partitions = {
            (each.name or "", one.partition_index): not one.error_code and one.leader_id >= 0
            for each in client.ask(MetadataRequest(topics=None), 12).topics
            if not (each.name or "").startswith("__")
            for one in each.partitions
        }
        if (partitions and all(partitions.values())) or time.monotonic() > ends:
            return sorted(partition for partition, has_leader in partitions.items() if has_leader)
        time.sleep(0.1)


def append(bootstrap: str, topic: str, index: int) -> int:
    """The offset of a new record; -1 if it is refused."""
    told: list[int] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": 5000, "log_level": 0})
    producer.produce(
        topic,
        "new",
        "key",
        partition=index,
        on_delivery=lambda error, message: told.append(-1 if error is not None else message.offset() or 0),
    )
    producer.flush(TIMEOUT_S)
    return told[0] if told else -1


def _offset(client: BlockingClient, topic: str, index: int, timestamp: int) -> int:
    partition = ListOffsetsPartition(partition_index=index, current_leader_epoch=-1, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=0, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    ends = time.monotonic() + LEADER_S
    while True:
        [found] = client.ask(request, 7).topics
        [one] = found.partitions
        if one.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE):
            return one.offset if not one.error_code else -one.error_code
        if time.monotonic() > ends:
            return -one.error_code
        time.sleep(0.1)


def seen(client: BlockingClient, topic: str, index: int, times: Sequence[int]) -> Seen:
    start, end = _offset(client, topic, index, -2), _offset(client, topic, index, -1)
    read: dict[int, int] = {}
    unreadable: dict[str, str] = {}
    aborted: dict[int, None] = {}
    offset = start
    while 0 <= offset < end:
        partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=0,
            max_bytes=1,
            isolation_level=1,
            session_epoch=-1,
            topics=[FetchTopic(topic=topic, partitions=[partition])],
        )
        [found] = client.ask(request, 11).responses
        [one] = found.partitions
        aborted |= {each.first_offset: None for each in one.aborted_transactions or ()}
        following = offset + 1
        if one.error_code:
            unreadable[str(offset)] = ErrorCode(one.error_code).name
        elif not one.records:
            unreadable[str(offset)] = "nothing"
        else:
            try:
                for batch in batches_of_log(memoryview(one.records)):
                    if batch.crc_is_valid():
                        read |= dict.fromkeys(range(batch.base_offset, batch.next_offset), batch.max_timestamp)
                    else:
                        unreadable[str(batch.base_offset)] = "wrong checksum"
                    following = max(following, batch.next_offset)
            except InvalidBatch:
                unreadable[str(offset)] = "no batch"
        offset = following
    by_time = [_offset(client, topic, index, each) for each in times] if topic == ORDERS else []
    return Seen(start, end, ranges(read), ranges(aborted), by_time, unreadable)


def ranges(offsets: Mapping[int, object]) -> str:
    """Offsets as `0-4 7`."""
    found: list[list[int]] = []
    for offset in sorted(offsets):
        if found and found[-1][1] == offset - 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return " ".join(f"{first}-{last}" if first != last else f"{first}" for first, last in found)
