"""Members of groups of every kind that live through a change of systems and say nothing but heartbeats.

What a group knows of its members is in `__consumer_offsets`, so the next system has to accept the heartbeat of a member
that joined in the one before, in its epoch, and to know what was assigned to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec import Struct
from tests.swap.look import GROUP_KEY, Brokers, NotReady, members_of

from odradek.net.client import BlockingClient
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from odradek.wire.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from odradek.wire.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest
from odradek.wire.messages.streams_group_heartbeat_request import (
    StreamsGroupHeartbeatRequest,
    Subtopology,
    Topology,
)
from odradek.wire.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment

__all__ = ["KINDS", "Member", "SharedRecords", "set_configs", "wait_for"]

TIMEOUT_S = 120
SESSION_MS = 600_000
TOPIC = "packed"
SHARED = "shared"
ACCEPT, RELEASE = 1, 2


def wait_for(holds: Callable[[], bool], what: str) -> None:
    """Ask again until it holds."""
    ends = time.monotonic() + TIMEOUT_S
    while not holds():
        assert time.monotonic() < ends, f"it has not come to hold: {what}"
        time.sleep(0.1)


class Member:
    """One member, alone in its group."""

    def __init__(self, kind: str, bootstrap: str) -> None:
        self.kind, self.bootstrap = kind, bootstrap
        self.group = f"kept-{kind}"
        self.id = f"{kind}-member"
        self.epoch = 0
        """Of a classic group its generation."""

    def ask(self, request: Struct, version: int) -> Any:
        """Ask the coordinator of its group, as soon as there is one."""
        answer: Any = None

        def answered() -> bool:
            nonlocal answer
            try:
                with Brokers(self.bootstrap, client_id="member", timeout_s=TIMEOUT_S) as brokers:
                    answer = brokers.coordinated(GROUP_KEY, self.group).ask(request, version)
            except NotReady:
                return False
            return answer.error_code not in NOT_YET

        wait_for(answered, f"an answer to {self.id}")
        return answer

    def described(self) -> tuple[Any, ...] | None:
        """State, epoch and members of its group; None while nobody says."""
        with Brokers(self.bootstrap, client_id="member", timeout_s=TIMEOUT_S) as brokers:
            try:
                return members_of(brokers)[self.group]
            except NotReady:
                return None

    def join(self) -> None:
        """Become a member; what was assigned is known."""
        KINDS[self.kind].join(self)

    def beat(self) -> None:
        """A heartbeat in the epoch of then is accepted by the system that runs now."""
        kind = KINDS[self.kind]
        answer = self.ask(kind.beat(self), kind.version)
        assert 0 == answer.error_code, (self.id, ErrorCode(answer.error_code).name)
        now = getattr(answer, "member_epoch", self.epoch)
        # The two have different hashes for the topics of a group (KIP-1101), so each sees them changed once.
        assert now in (self.epoch, self.epoch + 1), (self.id, self.epoch, now)
        self.epoch = now
        if kind.join is _join_by_heartbeats:
            _wait_for_the_epoch_of_the_group(self)


NOT_YET = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _join_by_heartbeats(member: Member) -> None:
    """The first heartbeat joins, a later one brings the epoch of the assignment."""
    kind = KINDS[member.kind]
    answer: Any = None

    def is_assigned() -> bool:
        nonlocal answer
        request = kind.first(member) if not member.epoch else kind.beat(member)
        answer = member.ask(request, kind.version)
        assert 0 == answer.error_code, (member.id, ErrorCode(answer.error_code).name, answer.error_message)
        member.epoch = answer.member_epoch
        return kind.assigned(answer)

    wait_for(is_assigned, f"an assignment of {member.id}")

    _wait_for_the_epoch_of_the_group(member)


def _wait_for_the_epoch_of_the_group(member: Member) -> None:
    kind = KINDS[member.kind]

    def has_it() -> bool:
        member.epoch = member.ask(kind.beat(member), kind.version).member_epoch
        found = member.described()
        return found is not None and found[:2] == ("Stable", member.epoch)

    wait_for(has_it, f"{member.id} is in the newest epoch")


def _join_classic(member: Member) -> None:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"subscription")]
    answer: Any = None

    def has_joined() -> bool:
        nonlocal answer
        answer = member.ask(
            JoinGroupRequest(
                group_id=member.group,
                session_timeout_ms=SESSION_MS,
                rebalance_timeout_ms=SESSION_MS,
                member_id=answer.member_id if answer is not None else "",
                protocol_type="consumer",
                protocols=protocols,
            ),
            7,
        )
        return bool(answer.error_code == 0)

    wait_for(has_joined, "a classic member has joined")
    member.id, member.epoch = answer.member_id, answer.generation_id
    synced = member.ask(
        SyncGroupRequest(
            group_id=member.group,
            generation_id=member.epoch,
            member_id=member.id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[SyncGroupRequestAssignment(member_id=member.id, assignment=b"assignment")],
        ),
        5,
    )
    assert (0, b"assignment") == (synced.error_code, bytes(synced.assignment))


class Kind(NamedTuple):
    """The protocol of a kind of group, as far as a member that only stays needs it."""

    join: Callable[[Member], None]
    beat: Callable[[Member], Struct]
    version: int
    first: Callable[[Member], Struct] = lambda member: Struct()
    assigned: Callable[[Any], bool] = lambda answer: True


KINDS: Mapping[str, Kind] = {
    "classic": Kind(
        _join_classic,
        lambda member: HeartbeatRequest(group_id=member.group, generation_id=member.epoch, member_id=member.id),
        4,
    ),
    "consumer": Kind(
        _join_by_heartbeats,
        lambda member: ConsumerGroupHeartbeatRequest(
            group_id=member.group, member_id=member.id, member_epoch=member.epoch
        ),
        1,
        lambda member: ConsumerGroupHeartbeatRequest(
            group_id=member.group,
            member_id=member.id,
            rebalance_timeout_ms=SESSION_MS,
            subscribed_topic_names=[TOPIC],
            topic_partitions=[],
        ),
        lambda answer: answer.assignment is not None and bool(answer.assignment.topic_partitions),
    ),
    "share": Kind(
        _join_by_heartbeats,
        lambda member: ShareGroupHeartbeatRequest(
            group_id=member.group, member_id=member.id, member_epoch=member.epoch
        ),
        1,
        lambda member: ShareGroupHeartbeatRequest(
            group_id=member.group, member_id=member.id, subscribed_topic_names=[SHARED]
        ),
        lambda answer: answer.assignment is not None and bool(answer.assignment.topic_partitions),
    ),
    "streams": Kind(
        _join_by_heartbeats,
        lambda member: StreamsGroupHeartbeatRequest(
            group_id=member.group, member_id=member.id, member_epoch=member.epoch
        ),
        1,
        lambda member: StreamsGroupHeartbeatRequest(
            group_id=member.group,
            member_id=member.id,
            rebalance_timeout_ms=SESSION_MS,
            topology=Topology(epoch=1, subtopologies=[Subtopology(subtopology_id="0", source_topics=[TOPIC])]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
            process_id="process",
            client_tags=[],
        ),
        lambda answer: bool(answer.active_tasks),
    ),
}


class SharedRecords:
    """The records of one partition, as the share group of a kept member has them delivered."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.start = 0
        """The first record that is not accepted."""
        self.deliveries = 1
        """How often that one was delivered, with the delivery that comes next."""

    def take(self, end: int) -> None:
        """Acquire all records up to `end`, accept all but the last one, each by itself, and release that."""
        acquired: list[tuple[int, int, int]] = []
        with Brokers(self.member.bootstrap, client_id="member", timeout_s=TIMEOUT_S) as brokers:
            client = brokers.leader_of(SHARED, 0)
            named = MetadataRequest(topics=[MetadataRequestTopic(name=SHARED)])
            topic = client.ask(named, 12).topics[0].topic_id
            epoch = 0

            def has_all() -> bool:
                nonlocal epoch
                fetch = ShareFetchRequest(
                    group_id=self.member.group,
                    member_id=self.member.id,
                    share_session_epoch=epoch,
                    max_wait_ms=200,
                    max_bytes=1_000_000,
                    max_records=500,
                    batch_size=500,
                    topics=[FetchTopic(topic, [FetchPartition(partition_index=0)])] if not epoch else [],
                )
                answer = client.ask(fetch, 1)
                if answer.error_code:
                    return False
                epoch += 1
                for part in (each for found in answer.responses for each in found.partitions):
                    acquired.extend(
                        (one.first_offset, one.last_offset, one.delivery_count) for one in part.acquired_records
                    )
                return bool(acquired) and acquired[-1][1] == end - 1

            wait_for(has_all, f"records {self.start} to {end} are acquired, and not only {acquired}")
            assert (self.start, self.deliveries) == (acquired[0][0], acquired[0][2])
            # Each acknowledgement is a record of its own of the group's state.
            for offset in range(self.start, end):
                batch = AcknowledgementBatch(offset, offset, [ACCEPT if offset < end - 1 else RELEASE])
                done = client.ask(
                    ShareAcknowledgeRequest(
                        group_id=self.member.group,
                        member_id=self.member.id,
                        share_session_epoch=epoch,
                        topics=[AcknowledgeTopic(topic, [AcknowledgePartition(0, [batch])])],
                    ),
                    1,
                )
                epoch += 1
                [part] = [each for found in done.responses for each in found.partitions]
                assert (0, 0) == (done.error_code, part.error_code)
        self.start, self.deliveries = end - 1, 2


def set_configs(bootstrap: str, *configs: tuple[int, str, str, str]) -> None:
    """Set configs, each by type and name of its resource."""
    resources = [
        AlterConfigsResource(resource_type=kind, resource_name=name, configs=[AlterableConfig(name=key, value=value)])
        for kind, name, key, value in configs
    ]
    with BlockingClient(bootstrap, client_id="admin", timeout_s=TIMEOUT_S) as client:
        answer = client.ask(IncrementalAlterConfigsRequest(resources=resources), 1)
    assert [0] * len(resources) == [each.error_code for each in answer.responses], answer
