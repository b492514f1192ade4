"""A shard without a node: one coordinator over a list of batches, clients that call it by name, leaders that answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from msgspec.structs import replace

from odradek.config.table import Config
from odradek.core.machine import Answered, Decision, LogRecord, Proposed, Refused
from odradek.records.batch import parse_batch
from odradek.records.record import Record, build_batch
from odradek.txn.checks import Claim
from odradek.txn.coordinator import TxnCoordinator
from odradek.txn.entry import VALUE_VERSIONS, Entry, encode_entry, encode_id
from odradek.txn.partitions import TopicPartition
from odradek.txn.producer_ids import ProducerIds
from odradek.txn.works import AbortTimedOut, ExpireId, TxnWork, WriteMarkers
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest

T = TypeVar("T")

START = 1_700_000_000_000
P: TopicPartition = ("t", 0)
Q: TopicPartition = ("t", 1)
OFFSETS: TopicPartition = ("__consumer_offsets", 7)
FIRST_ID = 7000
Pair = tuple[int, int]


def some_ids(start: int = FIRST_ID, count: int = 1_000_000) -> ProducerIds:
    """An allocator with ids in hand."""
    ids = ProducerIds()
    if count:
        ids.granted(start, count)
    return ids


class Shard:
    """Applies what is proposed at once; while it is `losing`, the log refuses it."""

    def __init__(self, *, tv: int = 2, config: Config | None = None, ids: ProducerIds | None = None) -> None:
        self.tv = tv
        self.config = config or Config()
        self.ids = ids or some_ids()
        self.now = START
        self.log: list[bytes] = []
        self.written: list[tuple[str, WriteMarkers]] = []
        self.leaders: dict[TopicPartition, int | None] = {}
        self.losing = False
        self.lost: list[tuple[LogRecord, ...]] = []
        self.listed: list[TxnWork] = []
        self.epoch = 0
        self.machine = self._coordinator()

    def _coordinator(self) -> TxnCoordinator:
        return TxnCoordinator(
            config=self.config,
            coordinator_epoch=self.epoch,
            leader_of=lambda topic, index: self.leaders.get((topic, index), 1),
        )

    # ---------------------------------------------------------------- log

    @property
    def next_offset(self) -> int:
        return len(self.log)

    def append(self, records: Iterable[LogRecord]) -> None:
        for record in records:
            batch = build_batch(
                [Record(key=record.key, value=record.value, timestamp=self.now)], base_offset=self.next_offset
            )
            self.log.append(batch)
            self.machine.apply(parse_batch(memoryview(batch)))

    def plant(self, entry: Entry) -> None:
        """Have the log say this of an id, whoever wrote it."""
        version = VALUE_VERSIONS[self.tv]
        value = encode_entry(entry.fitting(version), version)
        self.append([LogRecord(encode_id(entry.transactional_id), value)])

    def plant_epoch(self, epoch: int, tid: str = "x") -> None:
        """Put an id at an epoch, as if it had been bumped that often."""
        self.plant(replace(self.entry(tid), producer_epoch=epoch))

    def carry_out(self, transactional_id: str, decision: Decision[T]) -> T | Refused:
        match decision:
            case Refused():
                return decision
            case Answered(reply=reply):
                return reply
            case Proposed(records=records, reply=reply):
                if self.losing:
                    self.lost.append(tuple(records))
                    return Refused(ErrorCode.NOT_COORDINATOR)
                self.machine.awaits(decision, self.next_offset)
                self.append(records)
                return reply
            case _:
                raise AssertionError(f"{decision} from a coordinator")

    def fail_over(self) -> None:
        """Another coordinator replays the log."""
        self.epoch += 1
        self.machine = self._coordinator()
        for batch in self.log:
            self.machine.apply(parse_batch(memoryview(batch)))

    # ---------------------------------------------------------------- requests

    def init(
        self, tid: str = "x", pair: Pair = (-1, -1), *, timeout_ms: int = 60_000, **fields: Any
    ) -> Pair | ErrorCode:
        """InitProducerId: the pair, or the error."""
        request = InitProducerIdRequest(
            transactional_id=tid,
            transaction_timeout_ms=timeout_ms,
            producer_id=pair[0],
            producer_epoch=pair[1],
            **fields,
        )
        reply = self.carry_out(
            tid,
            self.machine.init_producer_id(request, now=self.now, tv=self.tv, ids=self.ids),
        )
        return reply.error if isinstance(reply, Refused) else (reply.producer_id, reply.producer_epoch)

    def add(self, pair: Pair, *partitions: TopicPartition, tid: str = "x", client_version: int = 0) -> ErrorCode:
        """AddPartitionsToTxn v3, or what a broker sends with `client_version` 2."""
        reply = self.carry_out(
            tid,
            self.machine.add_partitions(
                Claim(tid, *pair),
                partitions,
                client_version=client_version,
                now=self.now,
                tv=self.tv,
            ),
        )
        if isinstance(reply, Refused):
            return reply.error
        assert reply is not None, "nothing waits in Kafka"
        return reply

    def add5(self, pair: Pair, *partitions: TopicPartition, tid: str = "x") -> ErrorCode:
        """AddPartitionsToTxn v5 that adds."""
        return self.add(pair, *partitions, tid=tid, client_version=2)

    def verify(self, pair: Pair, *partitions: TopicPartition, tid: str = "x") -> list[ErrorCode]:
        """AddPartitionsToTxn v5 that verifies."""
        reply = self.carry_out(tid, self.machine.verify_partitions(Claim(tid, *pair), partitions))
        return [reply.error] * len(partitions) if isinstance(reply, Refused) else [reply[each] for each in partitions]

    def end(self, pair: Pair, *, commit: bool, version: int, tid: str = "x") -> Pair | ErrorCode:
        """EndTxn: the pair of v5 or NONE, or the error."""
        request = EndTxnRequest(transactional_id=tid, producer_id=pair[0], producer_epoch=pair[1], committed=commit)
        reply = self.carry_out(
            tid,
            self.machine.end_txn(request, version, now=self.now, tv=self.tv, ids=self.ids),
        )
        if isinstance(reply, Refused):
            return reply.error
        return (reply.producer_id, reply.producer_epoch) if version >= 5 else ErrorCode.NONE

    def commit5(self, pair: Pair, tid: str = "x") -> Pair | ErrorCode:
        return self.end(pair, commit=True, version=5, tid=tid)

    def abort5(self, pair: Pair, tid: str = "x") -> Pair | ErrorCode:
        return self.end(pair, commit=False, version=5, tid=tid)

    def commit4(self, pair: Pair, tid: str = "x") -> Pair | ErrorCode:
        return self.end(pair, commit=True, version=4, tid=tid)

    def abort4(self, pair: Pair, tid: str = "x") -> Pair | ErrorCode:
        return self.end(pair, commit=False, version=4, tid=tid)

    # ---------------------------------------------------------------- what is owed

    def works(self) -> list[TxnWork]:
        """All works that are owed, whether they were listed before or not."""
        for work in self.listed:
            self.machine.ended(work)
        self.listed = list(self.machine.due(self.now))
        return list(self.listed)

    def markers(self) -> list[WriteMarkers]:
        """The markers owed, by leader."""
        owed = [work for work in self.works() if isinstance(work, WriteMarkers)]
        return sorted(owed, key=lambda work: -1 if work.leader is None else work.leader)

    def report(
        self, work: WriteMarkers, results: Mapping[TopicPartition, ErrorCode] | ErrorCode = ErrorCode.NONE
    ) -> None:
        """A leader answers."""
        if isinstance(results, ErrorCode):
            results = dict.fromkeys(work.partitions, results)
        for (topic, index), error in results.items():
            if error is ErrorCode.NONE:
                self.written.append((f"{topic}-{index}", work))
        tid = work.transactional_id
        self.carry_out(tid, self.machine.complete(work, results, now=self.now, tv=self.tv))

    def perform(self, work: TxnWork) -> None:
        """Carry one work out as it should be."""
        tid = work.transactional_id
        match work:
            case WriteMarkers(leader=None):
                self.report(work, {})
            case WriteMarkers():
                self.report(work)
            case AbortTimedOut():
                self.carry_out(
                    tid,
                    self.machine.abort_timed_out(work, now=self.now, tv=self.tv, ids=self.ids),
                )
            case ExpireId():
                self.carry_out(tid, self.machine.expire(work, now=self.now))

    def settle(self) -> None:
        """Carry out everything that is owed, until nothing is."""
        for _ in range(100):
            works = self.works()
            if not works:
                return
            for work in works:
                self.perform(work)
        raise AssertionError("the coordinator never has enough")

    def after(self, milliseconds: int) -> None:
        """Let time pass."""
        self.now += milliseconds

    # ---------------------------------------------------------------- looking

    def entry(self, tid: str = "x") -> Entry:
        entry = self.machine.entry(tid)
        assert entry is not None
        return entry

    def state(self, tid: str = "x") -> str:
        return self.entry(tid).state.title

    def markers_written(self) -> list[str]:
        """Partition, outcome, epoch of each marker, as `t-0:COMMIT@1`."""
        return [
            f"{partition}:{'COMMIT' if work.commit else 'ABORT'}@{work.producer_epoch}"
            for partition, work in self.written
        ]

    def entries(self) -> dict[str, Entry]:
        return {entry.transactional_id: entry for entry in self.machine.entries()}
