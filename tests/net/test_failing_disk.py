"""A disk that fails at any of its calls: clients are told, the operator is told, and nothing acknowledged is lost.

Each write, fsync, rename, truncation and reservation of one run fails once, or fails from there on, with EIO or ENOSPC.
Then the process is killed or stops, and the next one has everything that was acknowledged.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.net.copies import copy_while_it_runs
from tests.net.failing_disk import EIO, ENOSPC, failing_calls

from odradek.cli.usage import UsageError
from odradek.core.machine import LogRecord
from odradek.net.client import BlockingClient
from odradek.records.batch import TRANSACTIONAL, batches, plain_batch
from odradek.records.record import iterate_records
from odradek.testing import Cluster
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from odradek.wire.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequest, OffsetFetchRequestGroup
from odradek.wire.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData

pytestmark = [pytest.mark.client, pytest.mark.filterwarnings("ignore::odradek.testing.DataDirWarning")]

CONFIG = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
}
VALUE_BYTES = 40_000
TRIES = 5
NONE = ErrorCode.NONE
EVERY = 1 if os.environ.get("ODRADEK_SWAP") == "all" else 31
"""Each so-manieth call fails; `ODRADEK_SWAP=all` lets each one fail."""
KINDS = [(error, stays, kill) for error in (EIO, ENOSPC) for stays in (True, False) for kill in (True, False)]
FIRST = {kind: number * EVERY // len(KINDS) for number, kind in enumerate(KINDS)}
"""Where each kind begins, so that together they try more calls."""
TOLD = {
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.TOPIC_ALREADY_EXISTS,
}
"""The errors that a client is told, all of which Kafka answers too where a disk fails."""
NOW = 1_700_000_000_000


class Lines:
    """A log that keeps what operators are told."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, dict[str, object]]] = []

    def debug(self, event: str, **fields: object) -> None: ...

    def info(self, event: str, **fields: object) -> None: ...

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append((event, fields))

    error = warning

    def tracebacks(self) -> list[object]:
        return [fields["exc_info"] for _, fields in self.lines if "exc_info" in fields]


class Play:
    """A client that does a little of everything, and knows what was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self.values: dict[int, bytes] = {}
        """Acknowledged records of the topic, by offset."""
        self.outcomes: dict[bytes, bool] = {}
        """Values in transactions whose end was acknowledged, and whether they were committed."""
        self.committed = -1
        """The offset that was committed last, with an acknowledgement."""
        self.start = 0
        self.topics: set[str] = set()
        self.deleted: set[str] = set()
        self.errors: set[ErrorCode] = set()

    def ask_each(self) -> dict[str, ErrorCode]:
        """The last error of each kind of request."""
        told = {}
        with BlockingClient(self._bootstrap, client_id="play", timeout_s=20) as self._client:
            asks: dict[str, Callable[[], None]] = {
                "produce": lambda: self._produce(b"v"),
                "offset": lambda: self._commit_offset(1),
                "transaction": lambda: self._transact(commits=True),
                "topic": lambda: self._create("new"),
            }
            for name, ask in asks.items():
                self.errors.clear()
                ask()
                [told[name]] = self.errors
        return told

    def fill(self) -> None:
        """Produce until the disk is full."""
        self.topics.add("orders")
        with BlockingClient(self._bootstrap, client_id="play", timeout_s=20) as self._client:
            for number in range(200):
                if ErrorCode.KAFKA_STORAGE_ERROR in self.errors:
                    return
                self._produce(f"{number:03}".encode() * VALUE_BYTES)

    def run(self) -> None:
        with BlockingClient(self._bootstrap, client_id="play", timeout_s=20) as self._client:
            self._create("orders")
            if "orders" not in self.topics:
                return
            for number in range(4):
                self._produce(f"{number}".encode() * VALUE_BYTES)
            for commits in (True, False):
                self._transact(commits=commits)
            self._commit_offset(3)
            if len(self.values) > 2:
                self._delete_records(2)
            self._create("gone")
            self._delete("gone")
            self._produce(b"last")

    def _told(self, error: int) -> ErrorCode:
        code = ErrorCode(error)
        if code is not NONE:
            self.errors.add(code)
        return code

    def _create(self, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        for _ in range(TRIES):
            [one] = self._client.ask(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 7).topics
            if self._told(one.error_code) in (NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self.topics.add(name)
                return

    def _delete(self, name: str) -> None:
        self.topics.discard(name)
        for _ in range(TRIES):
            request = DeleteTopicsRequest(topic_names=[name], timeout_ms=1000)
            [one] = self._client.ask(request, 5).responses
            if self._told(one.error_code) is NONE:
                self.deleted.add(name)
                return

    def _send(self, value: bytes, producer: tuple[str, int, int, int] | None = None) -> int:
        """The offset; -1 if it was refused."""
        records = [LogRecord(None, value)]
        if producer is None:
            batch = plain_batch(records, timestamp=NOW)
        else:
            _, producer_id, epoch, sequence = producer
            batch = plain_batch(
                records,
                timestamp=NOW,
                attributes=TRANSACTIONAL,
                producer_id=producer_id,
                producer_epoch=epoch,
                base_sequence=sequence,
            )
        data = PartitionProduceData(index=0, records=bytes(batch.view))
        request = ProduceRequest(
            transactional_id=None if producer is None else producer[0],
            acks=-1,
            timeout_ms=1000,
            topic_data=[TopicProduceData(name="orders", partition_data=[data])],
        )
        for _ in range(TRIES):
            [topic] = self._client.ask(request, 12).responses
            [one] = topic.partition_responses
            if self._told(one.error_code) is NONE:
                offset: int = one.base_offset
                return offset
        return -1

    def _produce(self, value: bytes) -> None:
        offset = self._send(value)
        if offset >= 0:
            self.values[offset] = value

    def _transact(self, *, commits: bool) -> None:
        value = b"committed" if commits else b"aborted"
        for _ in range(TRIES):
            request = InitProducerIdRequest(transactional_id="till", transaction_timeout_ms=60_000)
            begun = self._client.ask(request, 4)
            if self._told(begun.error_code) is NONE:
                break
        else:
            return
        offset = self._send(value, ("till", begun.producer_id, begun.producer_epoch, 0))
        if offset < 0:
            return
        for _ in range(TRIES):
            ended = self._client.ask(
                EndTxnRequest(
                    transactional_id="till",
                    producer_id=begun.producer_id,
                    producer_epoch=begun.producer_epoch,
                    committed=commits,
                ),
                5,
            )
            if self._told(ended.error_code) is NONE:
                self.values[offset] = value
                self.outcomes[value] = commits
                return

    def _commit_offset(self, offset: int) -> None:
        topic = OffsetCommitRequestTopic(
            name="orders",
            partitions=[OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)],
        )
        for _ in range(TRIES):
            found = self._client.ask(OffsetCommitRequest(group_id="books", topics=[topic]), 8)
            [one] = found.topics[0].partitions
            if self._told(one.error_code) is NONE:
                self.committed = offset
                return

    def _delete_records(self, offset: int) -> None:
        topic = DeleteRecordsTopic(name="orders", partitions=[DeleteRecordsPartition(partition_index=0, offset=offset)])
        for _ in range(TRIES):
            found = self._client.ask(DeleteRecordsRequest(topics=[topic], timeout_ms=1000), 2)
            [one] = found.topics[0].partitions
            if self._told(one.error_code) is NONE:
                self.start = offset
                return


def read(client: BlockingClient, isolation: int) -> tuple[dict[int, bytes], set[int]]:
    """The records of the topic, and the offsets at which aborted transactions begin."""
    partition = ListOffsetsPartition(partition_index=0, current_leader_epoch=-1, timestamp=-2)
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[partition])])
    offset = client.ask(request, 7).topics[0].partitions[0].offset
    found: dict[int, bytes] = {}
    aborted: set[int] = set()
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=10**6)
        [topic] = client.ask(
            FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=10**6,
                isolation_level=isolation,
                session_epoch=-1,
                topics=[FetchTopic(topic="orders", partitions=[wanted])],
            ),
            11,
        ).responses
        [one] = topic.partitions
        assert not one.error_code
        aborted |= {each.first_offset for each in one.aborted_transactions or ()}
        if not one.records:
            return found, aborted
        for batch in batches(memoryview(one.records)):
            assert batch.crc_is_valid()
            if not batch.is_control:
                found |= {record.offset: bytes(record.value or b"") for record in iterate_records(batch)}
            offset = batch.next_offset


def check(path: Path, play: Play) -> None:
    """The next process has everything that was acknowledged."""
    lines = Lines()
    with (
        Cluster(data_dir=path, config=CONFIG, log=lines) as cluster,
        BlockingClient(cluster.bootstrap, client_id="check", timeout_s=20) as client,
    ):
        if "orders" in play.topics:
            _check(client, play)
        names = {each.name for each in client.ask(MetadataRequest(topics=None), 12).topics}
        assert play.topics <= names
        assert not play.deleted & names
    assert [] == lines.tracebacks()


def _check(client: BlockingClient, play: Play) -> None:
    found, _ = read(client, 0)
    expected = {offset: value for offset, value in play.values.items() if offset >= play.start}
    assert expected == {offset: found.get(offset) for offset in expected}
    for value, committed in play.outcomes.items():
        [offset] = [offset for offset, each in play.values.items() if each == value]
        seen, aborted = read(client, 1)
        if committed:
            assert seen.get(offset) == value
            assert offset not in aborted
        elif offset in seen:
            assert offset in aborted
    if play.committed >= 0:
        group = OffsetFetchRequestGroup(group_id="books", topics=None)
        [answer] = client.ask(OffsetFetchRequest(groups=[group]), 8).groups
        assert [play.committed] == [one.committed_offset for topic in answer.topics for one in topic.partitions]


def run(path: Path, *, kill: bool) -> tuple[Play | None, Lines, str]:
    """Start, play, and end; the client, the lines of the log, and the refusal of a start."""
    lines, play = Lines(), None
    try:
        with Cluster(data_dir=path, config=CONFIG, log=lines) as cluster:
            play = Play(cluster.bootstrap)
            play.run()
            if kill:
                copy_while_it_runs(path, killed(path))
    except UsageError as refusal:
        return play, lines, str(refusal)
    return play, lines, ""


def killed(path: Path) -> Path:
    """Where a copy of the files lies as a process leaves them that is killed now."""
    return path.with_name("killed")


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The calls of a run without a fault."""
    with failing_calls() as calls:
        play, lines, refusal = run(tmp_path_factory.mktemp("whole") / "data", kill=False)
    assert play is not None
    assert play.errors <= {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert play.outcomes == {b"committed": True, b"aborted": False}
    assert [7, 3, 2] == [len(play.values), play.committed, play.start]
    assert (["broker_fenced"], "") == ([event for event, _ in lines.lines], refusal)
    return calls.count


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
@pytest.mark.parametrize("stays", [True, False], ids=["from-there-on", "once"])
@pytest.mark.parametrize("error", [EIO, ENOSPC], ids=["EIO", "ENOSPC"])
def test_any_call_fails(error: int, stays: bool, kill: bool, count: int, tmp_path: Path) -> None:
    seen: set[ErrorCode] = set()
    for number in range(1 + FIRST[error, stays, kill], count + 1, EVERY):
        path = tmp_path / str(number) / "data"
        with failing_calls() as calls:
            calls.fail(number, error, stays=stays)
            play, lines, refusal = run(path, kill=kill)
        where = f"call {number}: {calls.failed[:3]}"
        assert [] == lines.tracebacks(), where
        if not calls.failed:
            continue
        told = [str(fields.get("reason")) for event, fields in lines.lines if event in ("disk_failed", "file_damaged")]
        words = os.strerror(error)
        assert any(words in line for line in [*told, refusal]), where
        assert "\n" not in refusal, where
        if play is not None:
            seen |= play.errors
            check(killed(path) if kill else path, play)
        shutil.rmtree(path.parent)
    assert seen <= TOLD, seen


def test_each_kind_of_request_has_the_error_that_kafka_answers(tmp_path: Path) -> None:
    lines = Lines()
    with (
        failing_calls() as calls,
        Cluster(data_dir=tmp_path, config=CONFIG, log=lines, topics=["orders"], sync=True) as cluster,
    ):
        play = Play(cluster.bootstrap)
        play.run()  # the coordinators are there
        calls.fail(calls.count + 1, EIO, stays=True)
        told = play.ask_each()
        calls.heal()
    assert told == {
        "produce": ErrorCode.KAFKA_STORAGE_ERROR,
        "offset": ErrorCode.NOT_COORDINATOR,
        "transaction": ErrorCode.NOT_COORDINATOR,
        "topic": ErrorCode.NOT_CONTROLLER,
    }
    assert [] == lines.tracebacks()
    assert "stop_is_not_clean" in [event for event, _ in lines.lines]


def test_a_full_disk(tmp_path: Path) -> None:
    """A real one, of a megabyte, where file systems may be mounted."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], check=False, capture_output=True)
    if mounted.returncode:
        pytest.skip("nothing can be mounted here")
    try:
        lines = Lines()
        with Cluster(data_dir=disk / "data", config=CONFIG, log=lines, topics=["orders"]) as cluster:
            play = Play(cluster.bootstrap)
            play.fill()
        assert ErrorCode.KAFKA_STORAGE_ERROR in play.errors
        assert any("No space left on device" in str(fields.get("reason")) for _, fields in lines.lines)
        assert [] == lines.tracebacks()
        copy_while_it_runs(disk / "data", tmp_path / "copy")
        check(tmp_path / "copy", play)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_a_disk_that_can_only_be_read(tmp_path: Path) -> None:
    path = tmp_path / "data"
    with Cluster(data_dir=path, config=CONFIG, log=Lines()):
        pass
    if subprocess.run(["mount", "--bind", "-o", "ro", path, path], check=False, capture_output=True).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        with pytest.raises(UsageError) as raised, Cluster(data_dir=path, config=CONFIG, log=Lines()):
            pass
        assert f"The data directory cannot be used: {path} cannot be written to (Read-only file system)." == str(
            raised.value
        )
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)
    with Cluster(data_dir=path, config=CONFIG, log=Lines()):
        pass
