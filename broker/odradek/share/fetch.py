"""Records for members of share groups, and their acknowledgements (KIP-932).

- ShareFetch (key 78) and ShareAcknowledge (79), versions 1 and 2: 2 lets members prolong their locks and take exactly
  as many records as they want (KIP-1222, KIP-1206). Before Kafka 4.1 they were a preview.

A ShareFetch acknowledges records of its member and waits for others; a session keeps the partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import allowed
from odradek.core.machine import Refused
from odradek.host.endpoint import endpoint
from odradek.host.leaders import CurrentLeader, current_leader
from odradek.host.replicas import READABLE
from odradek.metadata.features import SHARE_VERSION
from odradek.records.batch import Batch, whole_size_at
from odradek.records.control import read_marker
from odradek.records.legacy import batch_at, batches_of_log
from odradek.share.leader import acquirable
from odradek.share.partition import LOST, Acknowledged, AckType, Acquired, Change, ReadBatch, SharePartition
from odradek.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, SharedPartition, ShareSession
from odradek.share.state import ShareKey
from odradek.wire.errors import ErrorCode
from odradek.wire.messages import share_acknowledge_response as acknowledge_response
from odradek.wire.messages.apis import SHARE_ACKNOWLEDGE, SHARE_FETCH
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
    from odradek.host.host import Host
    from odradek.host.replicas import Replicas
    from odradek.log.answers import ReadResult
    from odradek.log.partition import Partition
    from odradek.share.leader import Shares
    from odradek.wire.messages import share_acknowledge_request, share_fetch_request
    from odradek.wire.messages.share_acknowledge_request import AcknowledgementBatch as AcknowledgeBatch
    from odradek.wire.messages.share_acknowledge_request import ShareAcknowledgeRequest
    from odradek.wire.messages.share_fetch_request import AcknowledgementBatch as FetchBatch
    from odradek.wire.messages.share_fetch_request import ShareFetchRequest
    from odradek.wire.messages.txn_share_acknowledge_request import TxnAcknowledgementBatch

__all__ = ["MEMBER_ID_LENGTH_MAX", "NOT_HOSTED", "ShareFetchApi", "acknowledgements"]


FOUND_AT_ONCE = 20
"""Number of partitions to find before other requests get a turn."""


MEMBER_ID_LENGTH_MAX = 36
STRICT = 1
"""ShareAcquireMode: at most the requested number of records, also inside a batch."""
TopicPartition: TypeAlias = tuple[bytes, int]
Outcome: TypeAlias = "Refused | None"


class _Asked(Struct, frozen=True):
    """The part of a request for one partition."""

    topic_id: bytes
    index: int
    acknowledged: tuple[Acknowledged, ...] | Refused
    """The acknowledgements, or the error in them."""


_NONSENSE = Refused(ErrorCode.INVALID_REQUEST)
NOT_HOSTED = Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
"""No member has fetched from this share partition yet."""


def _makes_no_sense(request: ShareFetchRequest, asked: Sequence[_Asked]) -> bool:
    acknowledges = any(each.acknowledged for each in asked)
    if request.share_session_epoch == INITIAL_EPOCH and acknowledges:
        return True
    wants = request.max_wait_ms or request.min_bytes or request.max_bytes or request.max_records
    return request.is_renew_ack and bool(wants)


_AskedBatch: TypeAlias = "FetchBatch | AcknowledgeBatch | TxnAcknowledgementBatch"
_Topics = Sequence["share_fetch_request.FetchTopic"] | Sequence["share_acknowledge_request.AcknowledgeTopic"]


def _asked_once(topics: _Topics, *, renews: bool) -> tuple[list[_Asked], bool]:
    """The parts of a request by partition, and whether one is named twice: then the last one counts."""
    asked = list(_asked(topics, renews=renews))
    last = {(each.topic_id, each.index): each for each in asked}
    return list(last.values()), len(last) < len(asked)


def _asked(topics: _Topics, *, renews: bool) -> Iterator[_Asked]:
    for topic in topics:
        for partition in topic.partitions:
            said = acknowledgements(partition.acknowledgement_batches, renews=renews)
            yield _Asked(topic.topic_id, partition.partition_index, said)


def acknowledgements(asked: Sequence[_AskedBatch], *, renews: bool) -> tuple[Acknowledged, ...] | Refused:
    """The acknowledgements of a request for one partition, if they make sense."""
    said: list[Acknowledged] = []
    before = -1
    highest = AckType.RENEW if renews else AckType.REJECT
    for each in asked:
        first, last, types = each.first_offset, each.last_offset, each.acknowledge_types
        fits = len(types) == 1 or len(types) == last - first + 1
        if not before <= first <= last or not fits or not all(AckType.GAP <= kind <= highest for kind in types):
            return _NONSENSE
        said.append(Acknowledged(first, last, tuple(map(AckType, types))))
        before = last
    return tuple(said)


class _Acknowledging(Struct):
    """Valid acknowledgements, which the share coordinator does not have yet."""

    outcomes: dict[TopicPartition, Outcome] = {}
    """Outcome for each partition with acknowledgements."""
    changes: list[tuple[TopicPartition, SharePartition, Change]] = []

    @property
    def fails(self) -> bool:
        """Whether an acknowledgement fails the whole request."""
        return any(outcome is LOST for outcome in self.outcomes.values())

    async def tell(self, shares: Shares) -> dict[TopicPartition, Outcome]:
        """Have the share coordinator store them; return the outcomes."""
        for topic_partition, share, change in self.changes:
            self.outcomes[topic_partition] = await shares.tell(share, change)
        return self.outcomes


class ShareFetchApi:
    """ShareFetch, ShareAcknowledge."""

    def __init__(self, node: Host, shares: Shares, replicas: Replicas) -> None:
        self.shares = shares
        self.replicas = replicas
        self.metadata = node.metadata
        self.settings = node.settings
        self.clock = node.clock
        self.turns = node.turns
        self.purgatory = node.purgatory
        self._authority = node.authority

    @endpoint(
        SHARE_FETCH, needs=allowed(AclOperation.READ, AclResource.GROUP, of=lambda request: request.group_id), lowest=1
    )
    async def share_fetch(self, call: Call[ShareFetchRequest]) -> ShareFetchResponse:
        """ShareFetch: take the member's acknowledgements, and give it records; wait until there are some."""
        request = call.request
        if not self.metadata.image.feature(SHARE_VERSION):
            return ShareFetchResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        shares, group_id, member_id = self.shares, request.group_id, request.member_id
        if group_id is None or not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
            return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        asked, is_twice = _asked_once(request.topics, renews=request.is_renew_ack)
        if _makes_no_sense(request, asked):
            return ShareFetchResponse(error_code=ErrorCode.INVALID_REQUEST)
        session = self._session(call, asked)
        if isinstance(session, ErrorCode):
            return ShareFetchResponse(error_code=session)
        if is_twice and request.share_session_epoch == INITIAL_EPOCH:
            # As in Kafka, which fails to open such a session after it has ended the last one.
            shares.sessions.close(session)
            return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        acknowledging = await self._acknowledge(call, group_id, member_id, asked)
        if acknowledging.fails:
            await acknowledging.tell(self.shares)
            return ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)
        fetching = _Fetching(self, call, group_id, member_id, session)
        if request.share_session_epoch == FINAL_EPOCH:
            shares.sessions.close(session)
            outcomes = await acknowledging.tell(self.shares)
            await shares.release(session)
        elif request.is_renew_ack:
            outcomes = await acknowledging.tell(self.shares)
        else:
            # As in Kafka the read comes first: records that are released here come after those that are available.
            has_records = await fetching.read_at_once()
            outcomes = await acknowledging.tell(self.shares)
            if not has_records:
                await fetching.wait_for_records()
        return fetching.answer(asked, outcomes, is_first=request.share_session_epoch == INITIAL_EPOCH)

    @endpoint(
        SHARE_ACKNOWLEDGE,
        needs=allowed(AclOperation.READ, AclResource.GROUP, of=lambda request: request.group_id),
        lowest=1,
    )
    async def share_acknowledge(self, call: Call[ShareAcknowledgeRequest]) -> ShareAcknowledgeResponse:
        """ShareAcknowledge: take the member's acknowledgements."""
        request = call.request
        if not self.metadata.image.feature(SHARE_VERSION):
            return ShareAcknowledgeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
        shares, group_id, member_id = self.shares, request.group_id, request.member_id
        if group_id is None or not member_id or len(member_id) > MEMBER_ID_LENGTH_MAX:
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_REQUEST)
        if request.share_session_epoch == INITIAL_EPOCH:
            return ShareAcknowledgeResponse(error_code=ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        session = shares.sessions.find(group_id, member_id, request.share_session_epoch)
        if isinstance(session, ErrorCode):
            return ShareAcknowledgeResponse(error_code=session)
        asked, _ = _asked_once(request.topics, renews=request.is_renew_ack)
        acknowledging = await self._acknowledge(call, group_id, member_id, asked)
        outcomes = await acknowledging.tell(self.shares)
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
                    found = self.leader(call, topic_id, index)
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

    def _session(self, call: Call[ShareFetchRequest], asked: Sequence[_Asked]) -> ShareSession | ErrorCode:
        request, sessions = call.request, self.shares.sessions
        group_id, member_id = request.group_id or "", request.member_id or ""
        if request.share_session_epoch == INITIAL_EPOCH:
            at_most = self.settings.config.group_share_max_share_sessions
            session = sessions.open(group_id, member_id, call.conn, at_most=at_most)
        else:
            session = sessions.find(group_id, member_id, request.share_session_epoch)
        if isinstance(session, ErrorCode) or request.share_session_epoch == FINAL_EPOCH:
            return session
        is_new = request.share_session_epoch != INITIAL_EPOCH
        for each in asked:
            known = self.metadata.image.topic_by_id(each.topic_id)
            partition = SharedPartition("" if known is None else known.name, is_due=is_new)
            session.partitions.setdefault((each.topic_id, each.index), partition)
        for topic in request.forgotten_topics_data:
            for index in topic.partitions:
                session.partitions.pop((topic.topic_id, index), None)
        return session

    async def _acknowledge(self, call: Call, group_id: str, member_id: str, asked: Sequence[_Asked]) -> _Acknowledging:
        """Take a member's acknowledgements. No other member gets the records until the share coordinator has them."""
        taken = _Acknowledging()
        async for some in self.turns.share(call, [each for each in asked if each.acknowledged]):
            for each in some:
                topic_partition = each.topic_id, each.index
                share = self._acknowledged_share(call, group_id, each)
                taken.outcomes[topic_partition] = share if isinstance(share, Refused) else None
                if isinstance(share, Refused) or isinstance(each.acknowledged, Refused):
                    continue
                change = share.acknowledge(member_id, each.acknowledged, self.shares.limits(group_id), self.clock.now)
                if isinstance(change, Refused):
                    taken.outcomes[topic_partition] = change
                elif change is None:
                    self.shares.watch(share)
                else:
                    taken.changes.append((topic_partition, share, change))
        return taken

    def _acknowledged_share(self, call: Call, group_id: str, asked: _Asked) -> SharePartition | Refused:
        if isinstance(asked.acknowledged, Refused) and self.metadata.image.topic_by_id(asked.topic_id) is not None:
            return asked.acknowledged
        partition = self.partition(call, asked.topic_id, asked.index)
        if isinstance(partition, Refused):
            return partition
        return self.shares.known(ShareKey(group_id, asked.topic_id, asked.index), partition) or NOT_HOSTED

    def partition(self, call: Call, topic_id: bytes, index: int) -> Partition | Refused:
        """The partition of a member's request, if this broker leads it and the member may read it."""
        topic = self.metadata.image.topic_by_id(topic_id)
        name = "" if topic is None else topic.name
        return self.refusal(call, name, index) or self.replicas.led(name, index)

    def refusal(self, call: Call, topic: str, index: int) -> Refused | None:
        """The error of a partition that is refused before it is looked up; `topic` is empty for an unknown topic id."""
        if not topic:
            return Refused(ErrorCode.UNKNOWN_TOPIC_ID)
        authority = self._authority
        if authority is not None and not authority.allows(call, AclOperation.READ, AclResource.TOPIC, topic):
            return Refused(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        return None if self.metadata.image.partition(topic, index) else Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def leader(self, call: Call, topic_id: bytes, index: int) -> CurrentLeader | None:
        topic = self.metadata.image.topic_by_id(topic_id)
        return None if topic is None else current_leader(self.metadata.image, topic.name, index, call.peer.listener)


class _Found(Struct):
    """A partition to read from, as it was when it was found."""

    topic_partition: TopicPartition
    partition: Partition
    share: SharePartition
    is_free: bool
    """Whether the limit of acquired records was not reached."""


class _Fetching:
    """One ShareFetch: the records that it has read, and the partitions that it waits for."""

    def __init__(
        self, api: ShareFetchApi, call: Call[ShareFetchRequest], group_id: str, member_id: str, session: ShareSession
    ) -> None:
        self.api = api
        self.call = call
        self.request = request = call.request
        self.group_id = group_id
        self.member_id = member_id
        self.session = session
        self.epoch = session.epoch
        """Epoch of the session, until another request changes it."""
        self.shares = shares = api.shares
        self.limits = shares.limits(group_id)
        self.read_committed = shares.reads_committed(group_id)
        self.wanted: dict[TopicPartition, None] = {}
        """The partitions that it reads; the first place goes round among them."""
        self.found: set[TopicPartition] = set()
        """The wanted partitions that were found."""
        self.refused: dict[TopicPartition, PartitionData] = {}
        """The answers for partitions that it does not read, or no longer."""
        self.results: dict[TopicPartition, PartitionData] = {}
        self.leaders: dict[int, NodeEndpoint] = {}
        self.deadline = api.clock.now + request.max_wait_ms
        self.news = api.purgatory.watch()
        """Events since the partitions were read."""

    async def read_at_once(self) -> bool:
        """Read from the partitions of the session; True if the fetch need not wait."""
        self._sort_out()
        return await self._read_once(waits=False)

    async def wait_for_records(self) -> None:
        """Read again until there are records, only errors, or no more time."""
        while not await self._read_once(waits=True):
            pass

    async def _read_once(self, *, waits: bool) -> bool:
        self.results = dict(self.refused)
        news = self.news = self.api.purgatory.watch()
        try:
            if await self._read_when_begun(self.deadline) or self.api.clock.now >= self.deadline or not self.wanted:
                return True
            if self.call.is_followed:
                return True
            if waits:
                self.call.parking = news
                await news.until(self.deadline)
            return False
        finally:
            news.leave()

    def _sort_out(self) -> None:
        """Refuse partitions that are not to be looked up; the first place goes round among the others.

        Topics have the names that they had when they came into the session, even if they were made again since.
        """
        wanted: list[TopicPartition] = []
        for topic_partition, partition in self.session.partitions.items():
            refused = self.api.refusal(self.call, partition.topic, topic_partition[1])
            if refused is None:
                wanted.append(topic_partition)
            else:
                self.refused[topic_partition] = self._failed(topic_partition, refused)
        turn = self.request.share_session_epoch % len(wanted) if wanted else 0
        self.wanted = dict.fromkeys(wanted[turn:] + wanted[:turn])

    async def _read_when_begun(self, deadline: int) -> bool:
        """Acquire records of loaded share partitions; load others until one has records."""
        begun = {each for each in self.wanted if self._known(each) is not None}
        if begun and await self._read_all(await self._find_all(begun), deadline=deadline):
            self._begin_later(begun)
            return True
        if len(begun) == len(self.wanted):
            return False
        for count, topic_partition in enumerate([each for each in self.wanted if each not in begun]):
            if count and not count % FOUND_AT_ONCE:
                await self.api.turns.breathe(self.call)
            found = await self._find(topic_partition)
            begun.add(topic_partition)
            if found is None or not self._has_records(found):
                continue
            if await self._read_all(await self._find_all(begun), deadline=deadline):
                self._begin_later(begun)
                return True
        return await self._read_all(await self._find_all(begun), deadline=deadline)

    def _begin_later(self, begun: Set[TopicPartition]) -> None:
        """Load the other share partitions for the next fetch."""
        rest = [each for each in self.wanted if each not in begun]
        led = [(self._key(each), partition) for each in rest if not isinstance(partition := self._led(each), Refused)]
        self.shares.begin_later(led)

    def _key(self, topic_partition: TopicPartition) -> ShareKey:
        return ShareKey(self.group_id, *topic_partition)

    def _led(self, topic_partition: TopicPartition) -> Partition | Refused:
        """The partition, if this broker leads it."""
        cached = self.session.partitions.get(topic_partition)
        if cached is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.api.replicas.led(cached.topic, topic_partition[1])

    def _known(self, topic_partition: TopicPartition) -> SharePartition | None:
        partition = self._led(topic_partition)
        return None if isinstance(partition, Refused) else self.shares.known(self._key(topic_partition), partition)

    def _has_records(self, found: _Found) -> bool:
        return found.is_free and found.share.next_offset < found.partition.high_watermark

    async def _find_all(self, begun: Set[TopicPartition]) -> list[_Found]:
        """The partitions to read from, found a few at a time."""
        found: list[_Found] = []
        for count, topic_partition in enumerate([each for each in self.wanted if each in begun]):
            if count and not count % FOUND_AT_ONCE:
                await self.api.turns.breathe(self.call)
            each = await self._find(topic_partition)
            if each is not None:
                found.append(each)
        return found

    async def _find(self, topic_partition: TopicPartition) -> _Found | None:
        """The present share partition; None if it is refused.

        A partition that this fetch has not found before is answered with the error. If it was found before and is gone
        now, only the next fetch gets the error, as in Kafka.
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
            # The topic may be deleted during the call to the share coordinator, which has no state then.
            gone = self._led(topic_partition)
            self._refuse(topic_partition, gone if isinstance(gone, Refused) else share)
            return None
        self.found.add(topic_partition)
        return _Found(topic_partition, partition, share, share.can_acquire(self.limits))

    def _refuse(self, topic_partition: TopicPartition, refused: Refused) -> None:
        self.results[topic_partition] = self.refused[topic_partition] = self._failed(topic_partition, refused)
        self.wanted.pop(topic_partition, None)

    async def _read_all(self, every: Sequence[_Found], *, deadline: int) -> bool:
        """Acquire records if there are enough, or at the deadline; True if that ends the fetch."""
        api, request = self.api, self.request
        room = min(request.max_bytes, api.settings.config.fetch_max_bytes)
        # Each partition has its share of the bytes, even if others have no records.
        share_of_room = room // max(1, sum(each.is_free for each in every))
        reads: list[tuple[_Found, int, ReadResult]] = []
        size = 0
        is_over = False
        # As in Kafka: partitions with a known position in the log come first.
        every = sorted(every, key=lambda found: not found.share.is_looked_at)
        async for some in api.turns.share(self.call, every):
            for found in some:
                # Time may have passed since it was found: leaders move, topics are deleted.
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
                    # The records at its position were deleted: the next fetch begins behind them, and this one ends.
                    share.stretches.begin_at(partition.log_start_offset)
                    is_over = True
                elif len(read.records):
                    size += len(read.records)
                    reads.append((current, offset, read))
        if not is_over and (not reads or (size < request.min_bytes and api.clock.now < deadline)):
            return False
        left = request.max_records
        async for some_reads in api.turns.share(self.call, reads):
            for found, offset, read in some_reads:
                if left <= 0:
                    return True
                if not self._is_current(found) or found.share.next_offset != offset:
                    # Other members have acquired the records since.
                    self.news.look_again()
                    continue
                acquired = self._acquire(found.topic_partition, found.share, read, left)
                left -= sum(each.last - each.first + 1 for each in acquired)
                is_over = is_over or bool(acquired)
        return is_over

    def _is_current(self, found: _Found) -> bool:
        """Whether this broker still leads the partition, with the same share partition."""
        return self.shares.known(found.share.key, found.partition) is found.share

    def _acquire(
        self, topic_partition: TopicPartition, share: SharePartition, read: ReadResult, max_records: int
    ) -> list[Acquired]:
        stretches = share.stretches
        # Compaction may have removed the requested offset; then the first batch starts at a higher offset.
        begin = max(share.next_offset, batch_at(read.records).base_offset)
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
            now=self.api.clock.now,
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
            found = self.api.leader(self.call, topic_id, index)
            if found is not None:
                data.current_leader = LeaderIdAndEpoch(leader_id=found.leader_id, leader_epoch=found.leader_epoch)
                found.tell_endpoint(self.leaders, NodeEndpoint)
        return data

    def _is_news(self, topic_partition: TopicPartition, data: PartitionData) -> bool:
        """Whether the response of a session must hold this partition, which is no longer due then."""
        partition = self.session.partitions.get(topic_partition)
        has_failed = data.error_code != ErrorCode.NONE
        is_news = bool(len(data.records or b"")) or has_failed or (partition is not None and partition.is_due)
        if partition is not None:
            partition.is_due = has_failed
        return is_news

    def answer(
        self, asked: Sequence[_Asked], outcomes: dict[TopicPartition, Outcome], *, is_first: bool
    ) -> ShareFetchResponse:
        """The response: only partitions with news, or all in the first one of a session."""
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
    for batch in batches_of_log(records):
        if batch.base_offset >= offset:
            break
        found.append(batch)
    return found


def _aborted(every: Sequence[Batch], ranges: Sequence[tuple[int, int]]) -> set[int]:
    """The base offsets of aborted batches, by the list of aborted transactions of a read_committed read."""
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
    """The whole batches with these records. A single batch that is cut off is returned as it was read, as in Kafka."""
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
