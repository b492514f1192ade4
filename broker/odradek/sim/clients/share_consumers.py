"""Members of a share group (KIP-932): they acquire records, and accept, release, reject or keep them.

Each notes the records that it acquired, for how long it had them, and its acknowledgements.
`odradek.sim.checks.share_groups` checks these notes.
"""

from __future__ import annotations

from collections import Counter
from itertools import count

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.metadata.image import MetadataImage
from odradek.records.batch import batches
from odradek.records.record import iterate_records
from odradek.sim.world.actors import Ask, Script, Sleep
from odradek.sim.world.dice import Dice
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from odradek.wire.messages.share_acknowledge_request import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from odradek.wire.messages.share_acknowledge_response import ShareAcknowledgeResponse
from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic, ShareFetchRequest
from odradek.wire.messages.share_fetch_response import PartitionData, ShareFetchResponse
from odradek.wire.messages.share_group_heartbeat_request import ShareGroupHeartbeatRequest

__all__ = [
    "DEAD_LETTERS",
    "DELIVERIES_MAX",
    "LOCK_MS",
    "SHARE_CONFIG",
    "SHARE_GROUP",
    "Given",
    "Sharer",
    "share_group_settings",
]

TOPIC = "t"
SHARE_GROUP = "sharers"
DEAD_LETTERS = "dlq.t"
"""The dead letter queue of the group, where it has one."""
LOCK_MS, SESSION_MS = 1_200, 1_500
DELIVERIES_MAX = 5
"""Delivery count limit: after so many deliveries a record is archived."""
JOINING, LEAVING = 0, -1
REPORTS_MS = 300
WAIT_MS = 150
IDLE_MS = 4_000
"""After this time without records, longer than any lock or session, there are none left."""
GROUP_RESOURCE = 32
VERSION = 1
ACCEPT, RELEASE, REJECT = 1, 2, 3
NEVER = 1 << 62
SHARE_CONFIG: dict[str, object] = {
    "group.share.session.timeout.ms": SESSION_MS,
    "group.share.min.session.timeout.ms": SESSION_MS,
    "group.share.heartbeat.interval.ms": REPORTS_MS,
    "group.share.min.heartbeat.interval.ms": REPORTS_MS,
    "group.share.assignment.interval.ms": 0,
    "group.share.record.lock.duration.ms": LOCK_MS,
    "group.share.min.record.lock.duration.ms": 1_000,
    "group.share.delivery.count.limit": DELIVERIES_MAX,
    "share.coordinator.state.topic.num.partitions": 3,
    "errors.deadletterqueue.auto.create.topics.enable": "true",
}
"""Settings of the brokers."""


def share_group_settings(*, has_queue: bool) -> IncrementalAlterConfigsRequest:
    """Make the group read committed records from the earliest offset on, and give it a dead letter queue."""
    configs = {"share.isolation.level": "read_committed", "share.auto.offset.reset": "earliest"}
    if has_queue:
        configs["errors.deadletterqueue.topic.name"] = DEAD_LETTERS
    altered = [AlterableConfig(name=name, value=value) for name, value in configs.items()]
    group = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=SHARE_GROUP, configs=altered)
    return IncrementalAlterConfigsRequest(resources=[group])


class Given(Struct):
    """A record that a member acquired; times are virtual milliseconds."""

    member: str
    partition: int
    offset: int
    value: bytes | None
    count: int
    """Delivery count, this delivery included."""
    asked_at: int
    """When the request was sent: the lock began then or later."""
    told_at: int
    let_go_at: int = NEVER
    """From then on others may acquire it, even before the lock ends."""
    said_at: int = NEVER
    """When the member accepted it."""
    accepted_at: int = NEVER
    """When the leader confirmed that."""
    refused_at: int = NEVER
    """When the leader answered that the member does not have the record."""
    is_unsure: bool = False
    """Whether it was accepted in a request without an answer."""
    may_be_rejected: bool = False
    """Whether the member has rejected it, whatever the answer was."""
    rejected_at: int = NEVER
    """When the leader confirmed that."""


class _Session(Struct):
    epoch: int = 0


class Sharer:
    """Plays one member after the other, each on all partitions in turn."""

    def __init__(self, world: World, name: str, *, seed: str, dawdles: float = 0.25, rejects: float = 0.0) -> None:
        self.world = world
        self.name = name
        self.given: list[Given] = []
        self.stopping = False
        self._random = Dice(seed)
        self._dawdles = dawdles
        self._rejects = rejects
        self._member = ""
        self._epoch = JOINING
        self._assigned: set[int] = set()
        self._sessions: dict[int, _Session] = {}
        """Share sessions, by broker."""
        self._has: list[Given] = []
        """Records without an acknowledgement."""
        self._last_news = 0
        self.in_vain: dict[int, int] = {}
        """When it last asked for records of a partition in vain, by partition."""
        self.lost: Counter[int] = Counter()
        """Number of requests without an answer, by partition: they may have acquired records."""

    def script(self) -> Script:
        for number in count():
            self._member, self._epoch = f"{self.name}-{number}", JOINING
            self._assigned, self._sessions, self._has = set(), {}, []
            if (yield from self._live()):
                return
            yield Sleep(self._random.randint(10, 200))

    def _live(self) -> Script:
        """Be one member; True if there are no records left."""
        reports_at = self.world.now
        self._last_news = self.world.now
        while True:
            if self.world.now >= reports_at:
                if not (yield from self._report()):
                    return False
                reports_at = self.world.now + REPORTS_MS
            if self.stopping and self.world.now - self._last_news > IDLE_MS:
                yield from self._leave()
                return True
            if not self.stopping and self._random.random() < 0.01:
                return (yield from self._go())
            yield from self._take_some()
            yield Sleep(self._random.choice((0, 5, 30)))

    def _go(self) -> Script:
        """Leave, or die without a request; locks and membership time out then."""
        if self._random.random() < 0.5:
            yield from self._leave()
        else:
            self._let_go(self._has)
        return False

    def _report(self) -> Script:
        """Send a heartbeat; False if the member is fenced."""
        joins = self._epoch == JOINING
        request = ShareGroupHeartbeatRequest(
            group_id=SHARE_GROUP,
            member_id=self._member,
            member_epoch=self._epoch,
            subscribed_topic_names=[TOPIC] if joins else None,
        )
        response = yield from self._ask_coordinator(request)
        if response is None:
            return True
        if response.error_code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH):
            self._let_go(self._has)
            return False
        if response.error_code == ErrorCode.NONE:
            self._epoch = response.member_epoch
            if response.assignment is not None:
                assigned = response.assignment.topic_partitions
                self._assigned = {index for each in assigned for index in each.partitions}
        return True

    def _leave(self) -> Script:
        self._let_go(self._has)
        for node_id, session in list(self._sessions.items()):
            if session.epoch:
                last = ShareFetchRequest(group_id=SHARE_GROUP, member_id=self._member, share_session_epoch=LEAVING)
                yield Ask(node_id, last, VERSION)
        request = ShareGroupHeartbeatRequest(group_id=SHARE_GROUP, member_id=self._member, member_epoch=LEAVING)
        yield from self._ask_coordinator(request)

    def _ask_coordinator(self, request: ShareGroupHeartbeatRequest) -> Script:
        registered = self._image().topic(CoordinatorKind.GROUP.topic)
        assert registered is not None
        leader = registered.partitions[partition_for(SHARE_GROUP, len(registered.partitions))].leader
        return None if leader < 0 else (yield Ask(leader, request, VERSION))

    def _take_some(self) -> Script:
        """Fetch from one leader, and acknowledge all, some or none of the records."""
        topic = self._image().topic(TOPIC)
        assert topic is not None
        led: dict[int, list[int]] = {}
        for index in sorted(self._assigned):
            led.setdefault(topic.partitions[index].leader, []).append(index)
        led.pop(-1, None)
        if not led:
            yield Sleep(30)
            return
        leader = self._random.choice(list(led))
        session = self._sessions.setdefault(leader, _Session())
        most = self._random.choice((1, 5, 100))
        partitions = [FetchPartition(partition_index=index) for index in led[leader]]
        request = ShareFetchRequest(
            group_id=SHARE_GROUP,
            member_id=self._member,
            share_session_epoch=session.epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=most,
            batch_size=most,
            topics=[FetchTopic(topic_id=topic.id, partitions=partitions)],
        )
        asked_at = self.world.now
        response: ShareFetchResponse | None = yield Ask(leader, request, VERSION)
        if response is None or response.error_code != ErrorCode.NONE:
            self.lost.update(led[leader])
            self._begin_anew(leader)
            return
        session.epoch += 1
        news = [data for each in response.responses for data in each.partitions]
        failed = any(data.error_code != ErrorCode.NONE for data in news)
        if failed:
            # From here on it cannot tell its other records apart.
            self._begin_anew(leader)
        given = [each for data in news for each in self._read(data, asked_at)]
        self.given += given
        if given:
            self._last_news = self.world.now
        elif not failed:
            self.in_vain.update(dict.fromkeys(led[leader], asked_at))
        yield from self._use(leader, topic.id, given)

    def _use(self, leader: int, topic_id: bytes, given: list[Given]) -> Script:
        if not given:
            return
        if self._rejects and self._random.random() < self._rejects:
            yield from self._say(leader, topic_id, given, REJECT)
        elif self.stopping or self._random.random() < 1 - self._dawdles:
            yield from self._say(leader, topic_id, given, ACCEPT)
        elif self._random.random() < 0.5:
            yield from self._say(leader, topic_id, given, RELEASE)
        elif self._random.random() < 0.5:
            # So slow that the lock may end first.
            yield Sleep(self._random.randint(200, 2 * LOCK_MS))
            yield from self._say(leader, topic_id, given, ACCEPT)
        else:
            self._has += given

    def _read(self, data: PartitionData, asked_at: int) -> list[Given]:
        counts = {
            offset: each.delivery_count
            for each in data.acquired_records
            for offset in range(each.first_offset, each.last_offset + 1)
        }
        return [
            Given(
                self._member,
                data.partition_index,
                record.offset,
                record.value,
                counts[record.offset],
                asked_at,
                self.world.now,
            )
            for batch in batches(memoryview(data.records or b""))
            if not batch.is_control
            for record in iterate_records(batch)
            if record.offset in counts
        ]

    def _say(self, leader: int, topic_id: bytes, given: list[Given], kind: int) -> Script:
        session = self._sessions[leader]
        if not session.epoch:
            self._let_go(given)
            return
        runs: dict[int, list[AcknowledgementBatch]] = {}
        for each in given:
            of_partition = runs.setdefault(each.partition, [])
            if of_partition and of_partition[-1].last_offset == each.offset - 1:
                of_partition[-1].last_offset = each.offset
            else:
                of_partition.append(AcknowledgementBatch(each.offset, each.offset, [kind]))
        said = [AcknowledgePartition(index, batches_of) for index, batches_of in sorted(runs.items())]
        request = ShareAcknowledgeRequest(
            group_id=SHARE_GROUP,
            member_id=self._member,
            share_session_epoch=session.epoch,
            topics=[AcknowledgeTopic(topic_id, said)],
        )
        self._let_go(given)
        for each in given:
            each.is_unsure = kind == ACCEPT
            each.said_at = self.world.now if kind == ACCEPT else NEVER
            each.may_be_rejected = kind == REJECT
        response: ShareAcknowledgeResponse | None = yield Ask(leader, request, VERSION)
        if response is None or response.error_code != ErrorCode.NONE:
            self._begin_anew(leader)
            return
        session.epoch += 1
        if kind in (ACCEPT, REJECT):
            errors = {data.partition_index: data.error_code for each in response.responses for data in each.partitions}
            for each in given:
                if errors.get(each.partition) == ErrorCode.NONE:
                    if kind == ACCEPT:
                        each.accepted_at = self.world.now
                    else:
                        each.rejected_at = self.world.now
                elif kind == ACCEPT and errors.get(each.partition) == ErrorCode.INVALID_RECORD_STATE:
                    each.refused_at, each.is_unsure = self.world.now, False

    def _begin_anew(self, leader: int) -> None:
        """Begin another share session: the old one has ended, or may have, and its records may go to others."""
        self._sessions[leader] = _Session()
        self._let_go(self._has)

    def _let_go(self, given: list[Given]) -> None:
        for each in given:
            each.let_go_at = min(each.let_go_at, self.world.now)
        if given is self._has:
            self._has = []

    def _image(self) -> MetadataImage:
        """The metadata image of a random broker."""
        return self.world.nodes[self._random.choice(self.world.running)].image
