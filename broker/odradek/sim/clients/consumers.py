"""Consumers that read committed records of one partition while they are written."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from msgspec import structs

from odradek.records.record import iterate_records
from odradek.sim.clients.directories import NOT_KNOWN, Directory, Images, Known, offered
from odradek.sim.model.model import ReadBatch
from odradek.sim.model.reader import batches_of, committed_batches, committed_values
from odradek.sim.world.actors import Ask, Script, Sleep
from odradek.sim.world.world import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from odradek.wire.messages.fetch_response import FetchResponse, PartitionData
from odradek.wire.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from odradek.wire.primitives import ZERO_UUID
from odradek.wire.registry import ApiKey

__all__ = ["Consumer", "read_committed"]

TopicPartition = tuple[str, int]
WAIT_MS, CALM_WAIT_MS = 200, 2_000
ASKS_FOR_THE_END = 0.1
LATEST = -1
LIST_VERSION = 6
FETCH_VERSION, BY_ID_VERSION = 11, 17
"""The last version with topic names, and one with topic ids (KIP-516) whose response names leaders (KIP-951)."""


def fetch(
    partition: TopicPartition, offset: int, *, max_bytes: int, max_wait_ms: int, known: Known = NOT_KNOWN
) -> FetchRequest:
    """A read_committed Fetch of one partition, with its leader epoch and topic id if they are known."""
    wanted = FetchPartition(
        partition=partition[1], current_leader_epoch=known.epoch, fetch_offset=offset, partition_max_bytes=max_bytes
    )
    has_id = known.topic_id != ZERO_UUID
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=1,
        topics=[FetchTopic(topic="" if has_id else partition[0], topic_id=known.topic_id, partitions=[wanted])],
    )


def _told(response: FetchResponse | None) -> PartitionData | None:
    return None if response is None else response.responses[0].partitions[0]


class Session:
    """A consumer's fetch session with one broker (KIP-227): responses hold only changes."""

    def __init__(self) -> None:
        self._node_id = -1
        self._session_id, self._epoch = 0, 0
        self._asked: tuple[int, int, int] | None = None
        """(Offset, size, leader epoch) that the broker has in its session."""
        self._asking: tuple[int, int, int] | None = None
        self._last: PartitionData | None = None

    def ask(self, request: FetchRequest, node_id: int) -> None:
        """Put a request into the session: leave out what the broker knows. Another broker begins another session."""
        if node_id != self._node_id:
            self._begin_anew()
            self._node_id = node_id
        request.session_id, request.session_epoch = self._session_id, self._epoch
        [wanted] = request.topics[0].partitions
        self._asking = wanted.fetch_offset, wanted.partition_max_bytes, wanted.current_leader_epoch
        if self._epoch and self._asking == self._asked:
            request.topics = []

    def told(self, response: FetchResponse | None) -> PartitionData | None:
        """The partition's data, unchanged fields filled in; None if the session is lost."""
        if response is None or response.error_code != ErrorCode.NONE:
            # The session ended with its broker or its connection, or the broker evicted it.
            self._begin_anew()
            return None
        if not self._epoch and not response.session_id:
            return response.responses[0].partitions[0]
        self._session_id, self._epoch, self._asked = response.session_id, self._epoch + 1, self._asking
        last = self._last
        if response.responses:
            self._last = last = response.responses[0].partitions[0]
            return last
        assert last is not None, "the first answer of a session tells everything"
        return structs.replace(last, records=None, aborted_transactions=None)

    def _begin_anew(self) -> None:
        self._session_id, self._epoch, self._asked, self._last = 0, 0, None, None


class Consumer:
    """Reads one partition to its end, and follows it until `stopping` is set."""

    def __init__(
        self,
        world: World,
        partition: TopicPartition,
        *,
        random: Random,
        calm: Callable[[], bool],
        judge: Callable[[TopicPartition, list[ReadBatch], int, int | None], None],
        sessions: bool = False,
        directory: Directory | None = None,
    ) -> None:
        self.world = world
        self.partition = partition
        self.random = random
        self.seen: list[bytes | None] = []
        self.stopping = False
        self._directory = directory or Images(world, lambda: self.random)
        self._calm = calm
        """Whether the trouble is over."""
        self._judge = judge
        """Called for every read: partition, batches, last stable offset, and the high watermark if known."""
        self._offset = 0
        self._session = Session() if sessions else None

    def script(self) -> Script:
        while True:
            leader = yield from self._directory.leader(self.partition)
            if leader < 0:
                yield Sleep(50)
                continue
            max_bytes = self.random.choice((1, 2_000, 1 << 20))
            is_last = self.stopping
            max_wait_ms = CALM_WAIT_MS if self._calm() and not is_last else WAIT_MS
            known = self._known()
            request = fetch(self.partition, self._offset, max_bytes=max_bytes, max_wait_ms=max_wait_ms, known=known)
            if self._session is not None:
                self._session.ask(request, leader)
            response = yield Ask(leader, request, FETCH_VERSION if known.topic_id == ZERO_UUID else BY_ID_VERSION)
            data = _told(response) if self._session is None else self._session.told(response)
            self._note_leader(leader, response, data)
            if data is None or data.error_code != ErrorCode.NONE:
                yield Sleep(self.random.randint(5, 50))
                continue
            self._take(data)
            # An answer from before the stop may be old.
            if is_last and self._offset == data.last_stable_offset == data.high_watermark:
                return
            if self.random.random() < ASKS_FOR_THE_END:
                yield from self._ask_for_the_end(leader)
            yield Sleep(self.random.choice((0, 30, 200)))

    def _known(self) -> Known:
        """The leader epoch and topic id for its requests."""
        known = self._directory.known(self.partition)
        names_ids = offered(self.world, ApiKey.FETCH, BY_ID_VERSION) == BY_ID_VERSION
        return known if names_ids else structs.replace(known, topic_id=ZERO_UUID)

    def _note_leader(self, leader: int, response: FetchResponse | None, data: PartitionData | None) -> None:
        """Tell the directory the outcome; None is a missing response. The end of a session says nothing of leaders."""
        if response is None:
            self._directory.led(self.partition, leader, None)
        elif data is not None:
            self._directory.led(self.partition, leader, data.error_code, data.current_leader)

    def _ask_for_the_end(self, leader: int) -> Script:
        """Ask for the end of the partition with ListOffsets, like a consumer that starts at the latest offset."""
        epoch = self._directory.known(self.partition).epoch
        wanted = ListOffsetsPartition(partition_index=self.partition[1], current_leader_epoch=epoch, timestamp=LATEST)
        topic = ListOffsetsTopic(name=self.partition[0], partitions=[wanted])
        response = yield Ask(leader, ListOffsetsRequest(replica_id=-1, isolation_level=1, topics=[topic]), LIST_VERSION)
        if response is not None:
            [data] = response.topics[0].partitions
            if data.error_code == ErrorCode.NONE:
                self._judge(self.partition, [], data.offset, None)

    def _take(self, data: PartitionData) -> None:
        batches = batches_of(data)
        read = committed_batches(data, batches)
        self.seen += [record.value for batch, is_seen in read if is_seen for record in iterate_records(batch)]
        self._judge(
            self.partition,
            [
                ReadBatch(batch.producer_id, batch.base_offset, is_seen)
                for batch, is_seen in read
                if batch.is_transactional
            ],
            data.last_stable_offset,
            data.high_watermark,
        )
        if batches:
            self._offset = batches[-1].next_offset


def read_committed(world: World, partition: TopicPartition) -> tuple[list[bytes | None], int, int]:
    """Read a whole partition: the values, the last stable offset and the high watermark."""
    registered = world.nodes[1].image.partition(*partition)
    assert registered is not None
    values: list[bytes | None] = []
    offset = 0
    while True:
        request = fetch(partition, offset, max_bytes=1 << 26, max_wait_ms=0)
        [topic] = world.client(registered.leader).ask(request, 11).responses
        [data] = topic.partitions
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code)
        # A Fetch reads one segment, and a log that was truncated has several.
        batches = batches_of(data)
        if not batches:
            return values, data.last_stable_offset, data.high_watermark
        values += committed_values(data, batches)
        offset = batches[-1].next_offset
