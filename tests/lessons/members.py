"""Members of the group that stories are about, of each protocol: they do what they are told, one request at a time."""

from __future__ import annotations

from typing import Any

from tests.lessons.stage import GROUP, ORDERS, Stage

from odradek.wire.errors import ErrorCode
from odradek.wire.messages import streams_group_heartbeat_request as streams
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from odradek.wire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from odradek.wire.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from odradek.wire.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from odradek.wire.registry import encode

__all__ = ["Classic", "Member", "Sharer", "Thread"]

JOINING, LEAVING = 0, -1
BEAT_MS = 100
GROUP_RESOURCE = 32
ACCEPT, RELEASE = 1, 2


class _Asks:
    """What they have in common: a name, and the coordinator of the group."""

    def __init__(self, stage: Stage, name: str) -> None:
        self.stage = stage.named(name)
        self.member_id = name
        self.epoch = JOINING

    @property
    def coordinator(self) -> int:
        """The broker that coordinates the group."""
        return self.stage.leader(self.stage.offsets_of(GROUP))

    def commit(self, offset: int) -> ErrorCode:
        """OffsetCommit of the first partition of `orders`."""
        wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[OffsetCommitRequestTopic(name=ORDERS[0], partitions=[wanted])],
        )
        [topic] = self.stage.ask(self.coordinator, request, 9).topics
        return ErrorCode(topic.partitions[0].error_code)


class Member(_Asks):
    """A member of a group of the consumer protocol (KIP-848)."""

    owned: list[int] | None = None
    """What it has got; None before it has heard of any."""

    def beat(self) -> ErrorCode:
        """ConsumerGroupHeartbeat; it takes and gives up what it is told to, and says so the next time."""
        joins = self.epoch == JOINING
        owned = [] if joins else self.owned
        topic_id = self.stage.topic_id(ORDERS[0])
        request = ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=30_000 if joins else -1,
            subscribed_topic_names=[ORDERS[0]] if joins else None,
            topic_partitions=None
            if owned is None
            else [TopicPartitions(topic_id=topic_id, partitions=owned)]
            if owned
            else [],
        )
        answer = self.stage.ask(self.coordinator, request, 1)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
            if answer.assignment is not None:
                self.owned = [index for each in answer.assignment.topic_partitions for index in each.partitions]
        return ErrorCode(answer.error_code)

    def leave(self) -> None:
        """Go away, and say so."""
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=LEAVING)
        self.stage.ask(self.coordinator, request, 1)


class Thread(_Asks):
    """A thread of Kafka Streams (KIP-1071)."""

    def beat(self) -> ErrorCode:
        """StreamsGroupHeartbeat."""
        joins = self.epoch == JOINING
        subtopology = streams.Subtopology(subtopology_id="0", source_topics=[ORDERS[0]])
        tasks: list[streams.TaskIds] | None = [] if joins else None
        request = streams.StreamsGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=30_000 if joins else -1,
            topology=streams.Topology(epoch=0, subtopologies=[subtopology]) if joins else None,
            process_id=self.member_id if joins else None,
            active_tasks=tasks,
            standby_tasks=tasks,
            warmup_tasks=tasks,
        )
        answer = self.stage.ask(self.coordinator, request, 1)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = answer.member_epoch
        return ErrorCode(answer.error_code)


class Classic(_Asks):
    """A member of a classic group. Its epoch is the generation."""

    def __init__(self, stage: Stage, name: str, *, session_ms: int = 10_000) -> None:
        super().__init__(stage, name)
        self.member_id = ""
        self.session_ms = session_ms

    def joining(self) -> Any:
        """JoinGroup, without waiting."""
        metadata = b"\0\0" + encode(ConsumerProtocolSubscription(topics=[ORDERS[0]]), 0)
        request = JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=60_000,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=metadata)],
        )
        return self.stage.pending(self.coordinator, request, 9, lambda response: response)

    def join(self) -> Any:
        """The same, until it is a member; the answer."""
        answer = self.joining().result()
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = answer.member_id
            answer = self.joining().result()
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch = answer.generation_id
        return answer

    def syncing(self, members: tuple[str, ...] = ()) -> Any:
        """SyncGroup, without waiting; a leader says what each of the members gets."""
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=each, assignment=b"") for each in members],
        )
        return self.stage.pending(self.coordinator, request, 5, lambda response: ErrorCode(response.error_code))

    def beat(self) -> ErrorCode:
        """Heartbeat."""
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.epoch, member_id=self.member_id)
        return ErrorCode(self.stage.ask(self.coordinator, request, 4).error_code)

    def leave(self) -> None:
        """LeaveGroup."""
        request = LeaveGroupRequest(group_id=GROUP, members=[MemberIdentity(member_id=self.member_id)])
        self.stage.ask(self.coordinator, request, 5)


class Sharer(_Asks):
    """A member of a share group (KIP-932)."""

    session = 0

    def configure(self, **configs: str) -> None:
        """IncrementalAlterConfigs of the group."""
        altered = [AlterableConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
        group = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=altered)
        self.stage.ask(self.stage.world.spec.controller_id, IncrementalAlterConfigsRequest(resources=[group]), 1)
        self.stage.world.advance(10)

    def beat(self) -> None:
        """ShareGroupHeartbeat."""
        joins = self.epoch == JOINING
        request = ShareGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch,
            subscribed_topic_names=[ORDERS[0]] if joins else None,
        )
        answer = self.stage.ask(self.coordinator, request, 1)
        assert answer.error_code == ErrorCode.NONE, answer
        self.epoch = answer.member_epoch

    def fetch(self, *, wait_ms: int = 3_000) -> dict[int, int]:
        """ShareFetch: the offsets that it may use now, each with how often it was delivered."""
        request = ShareFetchRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self.session,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=10,
            batch_size=10,
            topics=[
                FetchTopic(topic_id=self.stage.topic_id(ORDERS[0]), partitions=[FetchPartition(partition_index=0)])
            ],
        )
        answer = self.stage.ask(self.stage.leader(ORDERS), request, 1)
        assert answer.error_code == ErrorCode.NONE, answer
        self.session += 1
        return {
            offset: each.delivery_count
            for topic in answer.responses
            for data in topic.partitions
            for each in data.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        }

    def delivered(self) -> dict[int, int]:
        """The same, as often as it takes."""
        for _ in range(20):
            if got := self.fetch():
                return got
        raise AssertionError("no record came")

    def accept(self, offset: int) -> ErrorCode:
        """ShareAcknowledge: it is done."""
        return self._acknowledge(offset, ACCEPT)

    def release(self, offset: int) -> ErrorCode:
        """ShareAcknowledge: it is to be delivered again."""
        return self._acknowledge(offset, RELEASE)

    def _acknowledge(self, offset: int, how: int) -> ErrorCode:
        batch = AcknowledgementBatch(offset, offset, [how])
        request = ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=self.member_id,
            share_session_epoch=self.session,
            topics=[AcknowledgeTopic(self.stage.topic_id(ORDERS[0]), [AcknowledgePartition(0, [batch])])],
        )
        answer = self.stage.ask(self.stage.leader(ORDERS), request, 1)
        assert answer.error_code == ErrorCode.NONE, answer
        self.session += 1
        return ErrorCode(answer.responses[0].partitions[0].error_code)
