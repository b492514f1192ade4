"""A group coordinator with a log, a clock and clients, none of them real: what the stories of this folder play on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from itertools import count
from typing import Any

from odradek.config.keys import ConfigSource
from odradek.config.table import Config
from odradek.core.machine import Answered, Awaited, LogRecord, Parked, Proposed, Refused, TransactionalAppend
from odradek.group.classic.member import Token
from odradek.group.consumer.topics import NO_TOPICS
from odradek.group.coordinator import ExpireOffsets, GroupCoordinator, GroupDue
from odradek.group.modern_member import Client
from odradek.group.seekers import Seekers
from odradek.group.surroundings import ConsumerSettings, Surroundings
from odradek.records.batch import Batch, parse_batch, stamp
from odradek.records.control import end_txn_marker
from odradek.records.record import Record, build_batch, iterate_records
from odradek.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.join_group_response import JoinGroupResponse
from odradek.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.offset_fetch_request import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from odradek.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.messages.txn_offset_commit_request import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from odradek.wire.registry import encode

START = 1_000_000
SESSION_MS = 10_000
REBALANCE_MS = 60_000
DELAY_OF_NOTHING = ((ConfigSource.STATIC_BROKER, {"group.initial.rebalance.delay.ms": "0"}),)
"""Layers of a configuration that sets Kafka's key: a first generation waits for nobody."""
TOPIC_IDS = {"orders": bytes([1] * 16), "refunds": bytes([2] * 16)}


class Desk:
    """Asks the machine, appends what it proposes, and does what it owes."""

    def __init__(self, **config: Any) -> None:
        self.config = Config(**config)
        self.suffixes = count(1)
        self.now = START
        self.seekers = Seekers()
        self.log: list[Batch] = []
        self.replies: dict[Hashable, Any] = {}
        self.waiting: set[Hashable] = set()
        self.proposed: Proposed[Any] | None = None
        """The decision whose records are appended now: the machine may adopt it without reading it back."""
        self.machine = self.new_machine()

    def new_machine(self) -> GroupCoordinator:
        """A coordinator that knows nothing yet."""
        suffix = lambda: str(next(self.suffixes))  # noqa: E731 - a name for what the next lines are handed
        around = Surroundings(lambda: NO_TOPICS, lambda _: ConsumerSettings(), suffix, seekers=self.seekers)
        return GroupCoordinator(self.config, member_suffix=suffix, surroundings=around)

    def fail_over(self) -> None:
        """Another coordinator takes over: it has the log and nothing else."""
        self.machine = self.new_machine()
        for batch in self.log:
            self.machine.apply(batch)
        self.waiting.clear()
        self.settle()

    # ------------------------------------------------------------------ what a shard does

    def ask(self, decide: Any, *args: Any, **kwargs: Any) -> Any:
        """The reply or the refusal, or the token of a request that waits."""
        outcome = self.decide(decide(*args, **kwargs))
        self.settle()
        answered = isinstance(outcome, Token) and outcome not in self.waiting
        return self.replies[outcome] if answered else outcome

    def decide(self, decision: Any) -> Any:
        match decision:
            case Proposed(records=records, reply=reply, transactional=producer):
                assert records, "an empty proposal"
                self.proposed = decision
                self.append(records, producer)
                self.proposed = None
                return reply
            case Answered(reply=reply):
                return reply
            case Parked(token=token):
                self.waiting.add(token)
                return token
            case Awaited(records=records, token=token):
                self.waiting.add(token)
                self.append(records)
                return token
            case Refused():
                return decision
            case _:
                raise AssertionError(f"no decision: {decision!r}")

    def append(self, records: Iterable[LogRecord], producer: TransactionalAppend | None = None) -> None:
        built = [Record(timestamp=self.now, key=record.key, value=record.value) for record in records]
        if producer is None:
            self._commit(build_batch(built))
        else:
            self._commit(
                build_batch(
                    built,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.producer_epoch,
                    transactional=True,
                )
            )

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """The marker of a transaction arrives in the log."""
        marker = end_txn_marker(
            producer_id=producer_id, producer_epoch=0, commit=commit, coordinator_epoch=0, timestamp=self.now
        )
        self._commit(bytes(marker.view))
        self.settle()

    def _commit(self, data: bytes) -> None:
        buffer = bytearray(data)
        stamp(buffer, 0, base_offset=self.log[-1].next_offset if self.log else 0, leader_epoch=0)
        batch = parse_batch(memoryview(bytes(buffer)))
        self.log.append(batch)
        if self.proposed is None or not self.machine.fold_own(self.proposed, batch.base_offset):
            self.machine.apply(batch)

    def settle(self) -> None:
        """Pass on what was released, and do what is owed now."""
        while True:
            released, self.machine.released = self.machine.released, []
            for token, reply in released:
                assert token in self.waiting, f"{token} was not waiting"
                self.waiting.discard(token)
                self.replies[token] = reply
            due = list(self.machine.due(self.now))
            again = [work for work in self.machine.due(self.now) if isinstance(work, GroupDue)]
            assert [] == again, "a group is listed again when its work has ended"
            if not due:
                return
            for work in due:
                if isinstance(work, ExpireOffsets):
                    while self.decide(self.machine.expire_offsets(self.now)) is True:
                        pass
                else:
                    self.decide(self.machine.perform(work, self.now))
                self.machine.ended(work)

    def sleep(self, milliseconds: int) -> None:
        """Let time pass, waking the machine whenever it wants to be."""
        end = self.now + milliseconds
        while True:
            wake_at = self.machine.wake_at()
            if wake_at is None or wake_at > end:
                break
            self.now = max(self.now, wake_at)
            self.settle()
        self.now = end
        self.settle()

    @property
    def records(self) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values in the log, without markers."""
        return [
            (record.key, record.value)
            for batch in self.log
            if not batch.is_control
            for record in iterate_records(batch)
        ]

    # ------------------------------------------------------------------ what clients do

    def join(
        self,
        member_id: str = "",
        *,
        group: str = "g",
        version: int = 9,
        instance: str | None = None,
        protocols: Iterable[str] = ("range",),
        protocol_type: str = "consumer",
        topics: Iterable[str] = ("orders",),
        session_ms: int = SESSION_MS,
        rebalance_ms: int = REBALANCE_MS,
        client_id: str = "client",
    ) -> Any:
        """A JoinGroup; with version 4 and later a new dynamic member gets MEMBER_ID_REQUIRED."""
        metadata = subscription(topics)
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=metadata) for name in protocols],
        )
        return self.ask(self.machine.join, request, version, Client(client_id, "/10.0.0.1"), self.now)

    def enter(self, **kwargs: Any) -> Any:
        """A new dynamic member joins, as clients do: once for its id, once to wait. The reply, or the token."""
        required = self.join(**kwargs)
        return self.reply(self.join(required.member_id, **kwargs))

    def reply(self, outcome: Any) -> Any:
        """What a waiting request was answered meanwhile; itself if it was not, or did not wait."""
        return self.replies.get(outcome, outcome) if isinstance(outcome, tuple) else outcome

    def sync(
        self,
        joined: JoinGroupResponse,
        assignments: dict[str, bytes] | None = None,
        *,
        group: str = "g",
        version: int = 5,
        instance: str | None = None,
        generation: int | None = None,
        protocol: str | None = "range",
        protocol_type: str | None = "consumer",
    ) -> Any:
        """A SyncGroup of a member that was told its generation."""
        request = SyncGroupRequest(
            group_id=group,
            generation_id=joined.generation_id if generation is None else generation,
            member_id=joined.member_id,
            group_instance_id=instance,
            protocol_type=protocol_type,
            protocol_name=protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in (assignments or {}).items()
            ],
        )
        return self.ask(self.machine.sync, request, version, self.now)

    def heartbeat(self, member_id: str, generation: int, *, group: str = "g", instance: str | None = None) -> int:
        """The error code that a heartbeat is answered."""
        request = HeartbeatRequest(
            group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance
        )
        return error_of(self.ask(self.machine.heartbeat, request, self.now))

    def leave(self, *members: str, group: str = "g", version: int = 5, instances: Iterable[str] = ()) -> Any:
        """Members leave by their ids, or by their instance ids."""
        identities = [MemberIdentity(member_id=member_id) for member_id in members]
        identities += [MemberIdentity(group_instance_id=instance) for instance in instances]
        request = LeaveGroupRequest(group_id=group, member_id=members[0] if members else "", members=identities)
        return self.ask(self.machine.leave, request, version, self.now)

    def commit(
        self,
        offset: int,
        *,
        group: str = "g",
        topic: str = "orders",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 9,
        metadata: str | None = "",
        retention_ms: int = -1,
        leader_epoch: int = -1,
    ) -> int:
        """The error code of an OffsetCommit for one partition."""
        request = OffsetCommitRequest(
            group_id=group,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            retention_time_ms=retention_ms,
            topics=[
                OffsetCommitRequestTopic(
                    name=topic,
                    topic_id=TOPIC_IDS[topic],
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition,
                            committed_offset=offset,
                            committed_leader_epoch=leader_epoch,
                            committed_metadata=metadata,
                        )
                    ],
                )
            ],
        )
        return _error_of_topics(self.ask(self.machine.commit, request, version, self.now))

    def txn_commit(
        self,
        offset: int,
        *,
        producer_id: int = 7,
        group: str = "g",
        topic: str = "orders",
        partition: int = 0,
        member_id: str = "",
        generation: int = -1,
        instance: str | None = None,
        version: int = 5,
        metadata: str | None = "",
    ) -> int:
        """The error code of a TxnOffsetCommit for one partition."""
        request = TxnOffsetCommitRequest(
            transactional_id="t",
            group_id=group,
            producer_id=producer_id,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            group_instance_id=instance,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=topic,
                    topic_id=TOPIC_IDS[topic],
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=offset, committed_metadata=metadata
                        )
                    ],
                )
            ],
        )
        return _error_of_topics(self.ask(self.machine.txn_commit, request, version, self.now))

    def fetch(
        self,
        *,
        group: str = "g",
        topic: str = "orders",
        partition: int = 0,
        require_stable: bool = False,
        topic_id: bytes = bytes(16),
    ) -> Any:
        """What OffsetFetch says about one partition."""
        asked = OffsetFetchRequestTopics(name=topic, topic_id=topic_id, partition_indexes=[partition])
        request = OffsetFetchRequestGroup(group_id=group, topics=[asked])
        return self.ask(self.machine.fetch, request, require_stable).topics[0].partitions[0]

    def fetch_all(self, *, group: str = "g", require_stable: bool = False) -> dict[tuple[str, int], int]:
        """Every committed offset of a group."""
        response = self.ask(self.machine.fetch, OffsetFetchRequestGroup(group_id=group, topics=None), require_stable)
        return {
            (topic.name, partition.partition_index): partition.committed_offset
            for topic in response.topics
            for partition in topic.partitions
        }

    def state(self, group: str = "g") -> str:
        """The name of the group's state, as DescribeGroups tells it."""
        described: str = self.machine.describe(group, 5).group_state
        return described


def subscription(topics: Iterable[str]) -> bytes:
    """The metadata of a consumer that subscribes to these topics."""
    return b"\x00\x00" + encode(ConsumerProtocolSubscription(topics=list(topics)), 0)


def error_of(outcome: Any) -> int:
    """The error code of a refusal or of a response."""
    return int(outcome.error if isinstance(outcome, Refused) else outcome.error_code)


def _error_of_topics(outcome: Any) -> int:
    if isinstance(outcome, Refused):
        return int(outcome.error)
    return int(outcome.topics[0].partitions[0].error_code)
