"""Records for members of share groups, and what they say of them (KIP-932).

- ShareFetch (key 78) and ShareAcknowledge (79), versions 1 and 2: 2 lets members prolong their locks and take exactly
  as many records as they want (KIP-1222, KIP-1206). Before Kafka 4.1 they were a preview.

A ShareFetch says what has become of records that its member had, and waits for others; a session keeps the partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from operator import itemgetter
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import Struct

from odradek.access.acls import AclOperation, AclResource
from odradek.core.machine import Refused
from odradek.group.share.api import serves_share_groups
from odradek.host.leaders import CurrentLeader, current_leader
from odradek.host.replicas import READABLE, HasReplicas
from odradek.host.seams import HasAuthority, HasClock, HasConfig, HasMetadata, HasPurgatory, HasTurns
from odradek.records.batch import Batch, batches, parse_batch, whole_size_at
from odradek.records.control import read_marker
from odradek.share.leader import HasShares, acquirable
from odradek.share.partition import LOST, Acknowledged, AckType, Acquired, Change, ReadBatch, SharePartition
from odradek.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SharedPartition, ShareSession
from odradek.share.state import ShareKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import share_acknowledge_response as acknowledge_response
from odradek.wire.messages.share_acknowledge_response import ShareAcknowledgeResponse, ShareAcknowledgeTopicResponse
from odradek.wire.messages.share_fetch_response import (
    AcquiredRecords,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchResponse,
)

if TYPE_CHECKING:
    from odradek.host.call import Call
    from odradek.log.answers import ReadResult
    from odradek.log.partition import Partition
    from odradek.share.leader import Shares
    from odradek.wire.messages import share_acknowledge_request, share_fetch_request
    from odradek.wire.messages.share_acknowledge_request import ShareAcknowledgeRequest
    from odradek.wire.messages.share_fetch_request import ShareFetchRequest

__all__ = ["share_acknowledge", "share_fetch"]


FOUND_AT_ONCE = 20
"""How many partitions are looked for before others may go on."""


class Node(HasAuthority, HasClock, HasConfig, HasMetadata, HasPurgatory, HasReplicas, HasShares, HasTurns, Protocol):
    """What these routes touch of their broker."""


MEMBER_ID_LENGTH_MAX = 36
STRICT = 1
"""In ShareAcquireMode: exactly as many records as are wanted."""
TopicPartition: TypeAlias = tuple[bytes, int]
Outcome: TypeAlias = "Refused | None"


class _Asked(Struct, frozen=True):
    """What a request says of one partition."""

    topic_id: bytes
    index: int
    acknowledged: tuple[Acknowledged, ...] | Refused
    """What has become of records, or why that makes no sense."""


_NONSENSE = Refused(ErrorCode.INVALID_REQUEST)
NOT_HOSTED = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
"""Nobody has fetched from this share partition."""


async def share_fetch(node: Node, call: Call) -> ShareFetchResponse:
    """Take what the member says of records, and give it others; wait until there are some."""
    request: ShareFetchRequest = call.request
    if not serves_share_groups(node):
        return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    shares, group_id, member_id = node.shares, request.group_id, request.member_id
    if group_id is None or not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked, is_twice = _asked_once(request.topics, renews=request.is_renew_ack)
    if _makes_no_sense(request, asked):
        return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
    session = _session(node, call, request, asked)
    if isinstance(session, ErrorCode):
        return ShareFetchResponse(error_code=session)
    if is_twice and request.share_session_epoch == INITIAL_EPOCH:
        # As in Kafka, which fails to begin such a session and has ended the one before.
        shares.sessions.close(session)
        return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    acknowledging = await _acknowledge(node, call, group_id, member_id, asked)
    if acknowledging.fails:
        await acknowledging.tell(node)
        return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    fetching = _Fetching(node, call, request, group_id, member_id, session)
    if request.share_session_epoch == FINAL_EPOCH:
        shares.sessions.close(session)
        outcomes = await acknowledging.tell(node)
        await shares.release(session)
    elif request.is_renew_ack:
        outcomes = await acknowledging.tell(node)
    else:
        # As in Kafka the share coordinator is told meanwhile: what is released here comes after what is there anyway.
        has_records = await fetching.read_at_once()
        outcomes = await acknowledging.tell(node)
        if not has_records:
            await fetching.wait_for_records()
    return fetching.answer(asked, outcomes, is_first=request.share_session_epoch == INITIAL_EPOCH)


def _makes_no_sense(request: ShareFetchRequest, asked: Sequence[_Asked]) -> bool:
    acknowledges = any(each.acknowledged for each in asked)
    if request.share_session_epoch == INITIAL_EPOCH and acknowledges:
        return True
    wants = request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records
    return request.is_renew_ack and bool(wants)


def _session(node: Node, call: Call, request: ShareFetchRequest, asked: Sequence[_Asked]) -> ShareSession | ErrorCode:
    sessions = node.shares.sessions
    group_id, member_id = request.group_id or "", request.member_id or ""
    if request.share_session_epoch == INITIAL_EPOCH:
        at_most = node.config.group_share_max_share_sessions
        session = sessions.open(group_id, member_id, call.conn, at_most=at_most)
    else:
        session = sessions.find(group_id, member_id, request.share_session_epoch)
    if isinstance(session, ErrorCode) or request.share_session_epoch == FINAL_EPOCH:
        return session
    is_new = request.share_session_epoch != INITIAL_EPOCH
    for each in asked:
        known = node.image.topic_by_id(each.topic_id)
        partition = SharedPartition("" if known is None else known.name, is_due=is_new)
        session.partitions.setdefault((each.topic_id, each.index), partition)
    for topic in request.forgotten_topics_data:
        for index in topic.partitions:
            session.partitions.pop((topic.topic_id, index), None)
    return session


# ---------------------------------------------------------------------- acknowledging


async def share_acknowledge(node: Node, call: Call) -> ShareAcknowledgeResponse:
    """Take what the member says of records."""
    request: ShareAcknowledgeRequest = call.request
    if not serves_share_groups(node):
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    shares, group_id, member_id = node.shares, request.group_id, request.member_id
    if group_id is None or not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
    if request.share_session_epoch == INITIAL_EPOCH:
        return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
    session = shares.sessions.find(group_id, member_id, request.share_session_epoch)
    if isinstance(session, ErrorCode):
        return ShareAcknowledgeResponse(error_code=session)
    asked, _ = _asked_once(request.topics, renews=request.is_renew_ack)
    acknowledging = await _acknowledge(node, call, group_id, member_id, asked)
    outcomes = await acknowledging.tell(node)
    if acknowledging.fails:
        return ShareAcknowledgeResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
    if request.share_session_epoch == FINAL_EPOCH:
        shares.sessions.close(session)
        await shares.release(session)
    response = ShareAcknowledgeResponse(acquisition_lock_timeout_ms=shares.limits(group_id).lock_ms)
    leaders: dict[int, acknowledge_response.NodeEndpoint] = {}
    for (topic_id, index), outcome in outcomes.items():
        answer = acknowledge_response.PartitionData(partition_index=index)
        if outcome is not None:
            answer.error_code, answer.error_message = outcome.error, outcome.message
            if outcome.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                found = _leader(node, call, topic_id, index)
                if found is not None:
                    answer.current_leader = acknowledge_response.LeaderIdAndEpoch(
                        leader_id=found.leader_id, leader_epoch=found.leader_epoch
                    )
                    found.tell_endpoint(leaders, acknowledge_response.NodeEndpoint)
        if not response.responses or response.responses[-1].topic_id != topic_id:
            response.responses.append(ShareAcknowledgeTopicResponse(topic_id=topic_id))
        response.responses[-1].partitions.append(answer)
    response.node_endpoints = list(leaders.values())
    return response


_Topics = Sequence["share_fetch_request.FetchTopic"] | Sequence["share_acknowledge_request.AcknowledgeTopic"]


def _asked_once(topics: _Topics, *, renews: bool) -> tuple[list[_Asked], bool]:
    """What is asked of each partition, and whether one is named twice: then the last time counts."""
    asked = list(_asked(topics, renews=renews))
    last = {(each.topic_id, each.index): each for each in asked}
    return list(last.values()), len(last) < len(asked)


def _asked(topics: _Topics, *, renews: bool) -> Iterator[_Asked]:
    for topic in topics:
        for partition in topic.partitions:
            said = [
                (each.first_offset, each.last_offset, each.acknowledge_types)
                for each in partition.acknowledgement_batches
            ]
            yield _Asked(topic.topic_id, partition.partition_index, _said(said, renews=renews))


def _said(
    batches_of_request: Sequence[tuple[int, int, Sequence[int]]], *, renews: bool
) -> tuple[Acknowledged, ...] | Refused:
    said: list[Acknowledged] = []
    before = -1
    highest = AckType.RENEW if renews else AckType.REJECT
    for first, last, types in batches_of_request:
        fits = len(types) == 1 or len(types) == last - first + 1
        if not before <= first <= last or not fits or not all(AckType.GAP <= kind <= highest for kind in types):
            return _NONSENSE
        said.append(Acknowledged(first, last, tuple(map(AckType, types))))
        before = last
    return tuple(said)


class _Acknowledging(Struct):
    """What was said of records, as far as it makes sense: the share coordinator is still to be told."""

    outcomes: dict[TopicPartition, Outcome] = {}
    """By partition, of what something was said."""
    changes: list[tuple[TopicPartition, SharePartition, Change]] = []

    @property
    def fails(self) -> bool:
        """Whether the whole request fails with what was said of a partition."""
        return any(outcome is LOST for outcome in self.outcomes.values())

    async def tell(self, node: Node) -> dict[TopicPartition, Outcome]:
        """Have it kept, and say what became of it."""
        for topic_partition, share, change in self.changes:
            self.outcomes[topic_partition] = await node.shares.tell(share, change)
        return self.outcomes


async def _acknowledge(
    node: Node, call: Call, group_id: str, member_id: str, asked: Sequence[_Asked]
) -> _Acknowledging:
    """Take what a member says of records, which nobody gets until the share coordinator knows."""
    taken = _Acknowledging()
    async for some in node.turns.share(call, [each for each in asked if each.acknowledged]):
        for each in some:
            topic_partition = each.topic_id, each.index
            share = _acknowledged_share(node, call, group_id, each)
            taken.outcomes[topic_partition] = share if isinstance(share, Refused) else None
            if isinstance(share, Refused) or isinstance(each.acknowledged, Refused):
                continue
            change = share.acknowledge(member_id, each.acknowledged, node.shares.limits(group_id), node.now)
            if isinstance(change, Refused):
                taken.outcomes[topic_partition] = change
            elif change is None:
                node.shares.watch(share)
            else:
                taken.changes.append((topic_partition, share, change))
    return taken


def _acknowledged_share(node: Node, call: Call, group_id: str, asked: _Asked) -> SharePartition | Refused:
    if isinstance(asked.acknowledged, Refused) and node.image.topic_by_id(asked.topic_id) is not None:
        return asked.acknowledged
    partition = _partition(node, call, asked.topic_id, asked.index)
    if isinstance(partition, Refused):
        return partition
    return node.shares.known(ShareKey(group_id, asked.topic_id, asked.index), partition) or NOT_HOSTED


def _partition(node: Node, call: Call, topic_id: bytes, index: int) -> Partition | Refused:
    """The partition of a member's request, if it is led here and the member may read it."""
    topic = node.image.topic_by_id(topic_id)
    name = "" if topic is None else topic.name
    return _refusal(node, call, name, index) or node.replicas.led(name, index)


def _refusal(node: Node, call: Call, topic: str, index: int) -> Refused | None:
    """Why the partition is not even looked for; `topic` is empty for an id that no topic has."""
    if not topic:
        return Refused(ErrorCode.UNKNOWN_TOPIC_ID)
    authority = node.authority
    if authority is not None and not authority.allows(call, AclOperation.READ, AclResource.TOPIC, topic):
        return Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return None if node.image.partition(topic, index) else Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _leader(node: Node, call: Call, topic_id: bytes, index: int) -> CurrentLeader | None:
    topic = node.image.topic_by_id(topic_id)
    return None if topic is None else current_leader(node.image, topic.name, index, call.peer.listener)


# ---------------------------------------------------------------------- fetching


class _Found(Struct):
    """A partition that may be read from, as it was when it was looked for."""

    topic_partition: TopicPartition
    partition: Partition
    share: SharePartition
    is_free: bool
    """Whether there was room for more records on their way."""


class _Fetching:
    """One ShareFetch: what it has read so far, and for what it waits."""

    def __init__(
        self, node: Node, call: Call, request: ShareFetchRequest, group_id: str, member_id: str, session: ShareSession
    ) -> None:
        self.node = node
        self.call = call
        self.request = request
        self.group_id = group_id
        self.member_id = member_id
        self.session = session
        self.epoch = session.epoch
        """Of the session, while no other request has changed it."""
        self.shares: Shares = node.shares
        self.limits = node.shares.limits(group_id)
        self.read_committed = node.shares.reads_committed(group_id)
        self.wanted: dict[TopicPartition, None] = {}
        """What it reads, each partition first in its turn."""
        self.found: set[TopicPartition] = set()
        """What of that was there."""
        self.refused: dict[TopicPartition, PartitionData] = {}
        """The answers for what it does not read, or no more."""
        self.results: dict[TopicPartition, PartitionData] = {}
        self.leaders: dict[int, NodeEndpoint] = {}
        self.deadline = node.now + request.max_wait_ms
        self.news = node.purgatory.watch()
        """What has happened since the partitions were looked at."""

    async def read_at_once(self) -> bool:
        """Read from the partitions of the session; whether there is nothing to wait for."""
        self._sort_out()
        return await self._read_once(waits=False)

    async def wait_for_records(self) -> None:
        """Read again until there are records, only errors, or no more time."""
        while not await self._read_once(waits=True):
            pass

    async def _read_once(self, *, waits: bool) -> bool:
        self.results = dict(self.refused)
        news = self.news = self.node.purgatory.watch()
        try:
            if await self._read_when_begun(self.deadline) or self.node.now >= self.deadline or not self.wanted:
                return True
            if waits:
                await news.until(self.deadline)
            return False
        finally:
            news.leave()

    def _sort_out(self) -> None:
        """Tell the partitions that are not even looked for from the others, each of which is first in its turn.

        By the name that the topic had when it came into the session: it may have been made again.
        """
        wanted: list[TopicPartition] = []
        for topic_partition, partition in self.session.partitions.items():
            refused = _refusal(self.node, self.call, partition.topic, topic_partition[1])
            if refused is None:
                wanted.append(topic_partition)
            else:
                self.refused[topic_partition] = self._failed(topic_partition, refused)
        turn = self.request.share_session_epoch % len(wanted) if wanted else 0
        self.wanted = dict.fromkeys(wanted[turn:] + wanted[:turn])

    async def _read_when_begun(self, deadline: int) -> bool:
        """Acquire records of what this broker knows; of what it has to ask for first, as soon as one has records."""
        begun = {each for each in self.wanted if self._known(each) is not None}
        if begun and await self._read_all(await self._find_all(begun), deadline=deadline):
            self._begin_later(begun)
            return True
        if len(begun) == len(self.wanted):
            return False
        for topic_partition in [each for each in self.wanted if each not in begun]:
            found = await self._find(topic_partition)
            begun.add(topic_partition)
            if found is None or not self._has_records(found):
                continue
            if await self._read_all(await self._find_all(begun), deadline=deadline):
                self._begin_later(begun)
                return True
        return await self._read_all(await self._find_all(begun), deadline=deadline)

    def _begin_later(self, begun: Set[TopicPartition]) -> None:
        """Have the others begin all the same, for the next fetch."""
        rest = [each for each in self.wanted if each not in begun]
        led = [(self._key(each), partition) for each in rest if not isinstance(partition := self._led(each), Refused)]
        self.shares.begin_later(led)

    def _key(self, topic_partition: TopicPartition) -> ShareKey:
        return ShareKey(self.group_id, *topic_partition)

    def _led(self, topic_partition: TopicPartition) -> Partition | Refused:
        """The partition of this name, if it is led here."""
        cached = self.session.partitions.get(topic_partition)
        if cached is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.node.replicas.led(cached.topic, topic_partition[1])

    def _known(self, topic_partition: TopicPartition) -> SharePartition | None:
        partition = self._led(topic_partition)
        return None if isinstance(partition, Refused) else self.shares.known(self._key(topic_partition), partition)

    def _has_records(self, found: _Found) -> bool:
        return found.is_free and found.share.next_offset < found.partition.high_watermark

    async def _find_all(self, begun: Set[TopicPartition]) -> list[_Found]:
        """What may be read from, a few at a time."""
        found: list[_Found] = []
        for count, topic_partition in enumerate([each for each in self.wanted if each in begun]):
            if count and not count % FOUND_AT_ONCE:
                await self.node.turns.breathe(self.call)
            each = await self._find(topic_partition)
            if each is not None:
                found.append(each)
        return found

    async def _find(self, topic_partition: TopicPartition) -> _Found | None:
        """The share partition of now; None where it is refused.

        The first time this fetch then answers that, whatever comes. What was there and is gone is not told of: as in
        Kafka the next fetch hears of it.
        """
        key = self._key(topic_partition)
        partition = self._led(topic_partition)
        if isinstance(partition, Refused):
            if topic_partition not in self.found:
                self._refuse(topic_partition, partition)
            return None
        self.news.add(((READABLE, partition.key), acquirable(key)))
        share = await self.shares.find(key, partition)
        if isinstance(share, Refused):
            # A topic may be deleted while its share coordinator is asked, which then knows nothing of it.
            gone = self._led(topic_partition)
            self._refuse(topic_partition, gone if isinstance(gone, Refused) else share)
            return None
        self.found.add(topic_partition)
        return _Found(topic_partition, partition, share, share.can_acquire(self.limits))

    def _refuse(self, topic_partition: TopicPartition, refused: Refused) -> None:
        self.results[topic_partition] = self.refused[topic_partition] = self._failed(topic_partition, refused)
        self.wanted.pop(topic_partition, None)

    async def _read_all(self, every: Sequence[_Found], *, deadline: int) -> bool:
        """Acquire records if there are enough, or if it is the last chance; whether the fetch is over with that."""
        node, request = self.node, self.request
        room = min(request.max_bytes, node.config.fetch_max_bytes)
        # A partition has its share of the bytes, whether or not the others have records.
        share_of_room = room // max(1, sum(each.is_free for each in every))
        reads: list[tuple[_Found, int, ReadResult]] = []
        size = 0
        is_over = False
        # As in Kafka: first where it knows the place in the log.
        every = sorted(every, key=lambda found: not found.share.is_looked_at)
        async for some in node.turns.share(self.call, every):
            for found in some:
                # Another one may have been waited for since it was found: leaders move, topics are deleted.
                current = found if self._is_current(found) else await self._find(found.topic_partition)
                if current is None or not current.share.can_acquire(self.limits):
                    continue
                share, partition = current.share, current.partition
                offset = share.looked_at = share.next_offset
                read = partition.read(
                    offset,
                    max_bytes=max(0, min(share_of_room, room - size)),
                    read_committed=self.read_committed,
                    min_one=size == 0,
                )
                self.results[found.topic_partition] = PartitionData(
                    partition_index=found.topic_partition[1], records=b""
                )
                if isinstance(read, Refused):
                    # Its start was deleted: the next fetch begins behind that, and this one is over.
                    share.stretches.begin_at(partition.log_start_offset)
                    is_over = True
                elif len(read.records):
                    size += len(read.records)
                    reads.append((current, offset, read))
        if not is_over and (not reads or (size < request.min_bytes and node.now < deadline)):
            return False
        left = request.max_records
        async for some_reads in node.turns.share(self.call, reads):
            for found, offset, read in some_reads:
                if left <= 0:
                    return True
                if not self._is_current(found) or found.share.next_offset != offset:
                    # It has gone to others since it was read.
                    self.news.look_again()
                    continue
                acquired = self._acquire(found.topic_partition, found.share, read, left)
                left -= sum(each.last - each.first + 1 for each in acquired)
                is_over = is_over or bool(acquired)
        return is_over

    def _is_current(self, found: _Found) -> bool:
        """Whether this broker leads the partition still, and knows it by the same share partition."""
        return self.shares.known(found.share.key, found.partition) is found.share

    def _acquire(
        self, topic_partition: TopicPartition, share: SharePartition, read: ReadResult, max_records: int
    ) -> list[Acquired]:
        stretches = share.stretches
        # Where compaction has left records out, the first batch begins behind what was asked for.
        begin = max(share.next_offset, parse_batch(read.records).base_offset)
        enough = begin + max_records + stretches.end - stretches.start
        every = _up_to(read.records, enough)
        aborted = _aborted(every, read.aborted or ())
        acquired = share.acquire(
            self.member_id,
            [ReadBatch(batch.base_offset, batch.last_offset, batch.base_offset in aborted) for batch in every],
            max_records=max_records,
            batch_size=self.request.batch_size,
            strict=self.request.share_acquire_mode == STRICT,
            limits=self.limits,
            now=self.node.now,
        )
        self.shares.watch(share)
        if acquired:
            data = self.results[topic_partition]
            data.records = _slice(read.records, every, acquired[0].first, acquired[-1].last)
            data.acquired_records = [
                AcquiredRecords(first_offset=each.first, last_offset=each.last, delivery_count=each.count)
                for each in acquired
            ]
        return acquired

    def _failed(self, topic_partition: TopicPartition, refused: Refused) -> PartitionData:
        topic_id, index = topic_partition
        data = PartitionData(
            partition_index=index, error_code=refused.error, error_message=refused.message, records=b""
        )
        if refused.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
            found = _leader(self.node, self.call, topic_id, index)
            if found is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
                found.tell_endpoint(self.leaders, NodeEndpoint)
        return data

    def _is_news(self, topic_partition: TopicPartition, data: PartitionData) -> bool:
        """Whether the answer of a session that goes on names this partition; it is then no longer due."""
        partition = self.session.partitions.get(topic_partition)
        has_failed = data.error_code != ErrorCode.NONE
        is_news = bool(len(data.records or b"")) or has_failed or (partition is not None and partition.is_due)
        if partition is not None:
            partition.is_due = has_failed
        return is_news

    def answer(
        self, asked: Sequence[_Asked], outcomes: dict[TopicPartition, Outcome], *, is_first: bool
    ) -> ShareFetchResponse:
        """Only what has news, but for the first answer of a session."""
        if not is_first and self.session.epoch != self.epoch:
            error = ErrorCode.INVALID_SHARE_SESSION_EPOCH
            return ShareFetchResponse(error_code=error, acquisition_lock_timeout_ms=self.limits.lock_ms)
        told = {each: data for each, data in self.results.items() if is_first or self._is_news(each, data)}
        if not is_first:
            # Kafka goes through a hash map, in which the last partition of a topic mostly comes first.
            self.session.served(sorted((each for each in told if told[each].records), key=itemgetter(1), reverse=True))
        for topic_partition, outcome in outcomes.items():
            data = told.get(topic_partition) or self.results.get(topic_partition)
            if data is None:
                data = PartitionData(partition_index=topic_partition[1], records=b"")
            told[topic_partition] = data
            if outcome is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = outcome.error, outcome.message
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        for (topic_id, _), data in told.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = ShareFetchableTopicResponse(topic_id=topic_id)
            topic.partitions.append(data)
        return ShareFetchResponse(
            acquisition_lock_timeout_ms=self.limits.lock_ms,
            responses=list(topics.values()),
            node_endpoints=list(self.leaders.values()),
        )


def _up_to(records: memoryview, offset: int) -> list[Batch]:
    """The batches that begin before this offset."""
    found: list[Batch] = []
    for batch in batches(records):
        if batch.base_offset >= offset:
            break
        found.append(batch)
    return found


def _aborted(every: Sequence[Batch], ranges: Sequence[tuple[int, int]]) -> set[int]:
    """The base offsets of batches that were aborted, by the list that a reader of committed records is given."""
    if not ranges:
        return set()
    waiting = sorted(ranges, key=lambda each: each[1], reverse=True)
    open_ones: set[int] = set()
    found: set[int] = set()
    for batch in every:
        while waiting and waiting[-1][1] <= batch.last_offset:
            open_ones.add(waiting.pop()[0])
        if batch.is_control:
            marker = read_marker(batch)
            if marker is not None and not marker.commit:
                open_ones.discard(batch.producer_id)
        elif batch.is_transactional and batch.producer_id in open_ones:
            found.add(batch.base_offset)
    return found


def _slice(records: memoryview, every: Sequence[Batch], first: int, last: int) -> memoryview:
    """The whole batches that hold these records; one alone as it was read, with what is cut behind it, as in Kafka."""
    if whole_size_at(records, every[0].size) is None:
        return records
    begin = end = 0
    for batch in every:
        size = batch.size
        if batch.last_offset < first:
            begin += size
        if batch.base_offset <= last:
            end += size
    return records[begin:end]
