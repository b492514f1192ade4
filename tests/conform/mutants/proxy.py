"""Brokers' stand-ins in front of a cluster, which change what passes as a mutant says."""

from __future__ import annotations

import asyncio
import struct
import traceback
from collections import Counter, deque
from collections.abc import Callable, Iterator
from typing import Any

from crc32c import crc32c
from msgspec import Struct
from tests.conform.mutants.mutant import Change, Mutant

from odradek.wire import registry
from odradek.wire.error_fields import first_error
from odradek.wire.errors import DecodeError, ErrorCode
from odradek.wire.messages import ApiKey
from odradek.wire.messages.add_offsets_to_txn_request import AddOffsetsToTxnRequest
from odradek.wire.messages.add_partitions_to_txn_request import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from odradek.wire.messages.request_header import RequestHeader
from odradek.wire.messages.response_header import ResponseHeader

__all__ = ["Cluster", "chosen"]

BATCH_CRC = struct.Struct(">I")
# The place of a batch's fields (KIP-98, "Message Format Changes").
BATCH: dict[str, tuple[int, struct.Struct]] = {
    "producer_id": (43, struct.Struct(">q")),
    "epoch": (51, struct.Struct(">h")),
    "sequence": (53, struct.Struct(">i")),
}
ATTRIBUTES, TRANSACTIONAL = 21, 1 << 4
LENGTH = struct.Struct(">i")
COPY_FROM = 1 << 30  # correlation ids of requests that the client did not send


def chosen(number: int, which: str) -> bool:
    """Whether the so-manieth is meant by `2` or `2+`."""
    return number >= int(which[:-1]) if which.endswith("+") else number == int(which)


class Passing(Struct):
    """A request on its way, and what its answer has to go through."""

    header: RequestHeader
    body: Any
    frame: bytes
    changes: list[Change]
    forward: bool = True
    hammered: int = 0

    @property
    def api(self) -> str:
        return ApiKey(self.header.request_api_key).name


class Cluster:
    """The stand-ins of one cluster's brokers, and what has passed."""

    def __init__(self, mutant: Mutant) -> None:
        self.mutant = mutant
        self.ports: dict[tuple[str, int], int] = {}
        self.counts: Counter[int] = Counter()
        self.firsts: dict[tuple[int, str], Any] = {}
        self.answered: Counter[str] = Counter()
        self.late: list[tuple[str, Connection, Passing]] = []
        self.copies = COPY_FROM
        self.topics: dict[object, str | None] = {}
        self._servers: list[asyncio.Server] = []

    async def port_for(self, host: str, port: int) -> int:
        """The port of the broker's stand-in, which is made the first time."""
        if (host, port) not in self.ports:

            async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                await Connection(self, reader, writer).run(host, port)

            server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=1 << 26)
            self._servers.append(server)
            self.ports[host, port] = server.sockets[0].getsockname()[1]
        return self.ports[host, port]

    def close(self) -> None:
        """Listen no more."""
        for server in self._servers:
            server.close()

    def meant(self, request: Passing) -> list[Change]:
        """The changes that this request, or its answer, is to have."""
        found = []
        for index, change in enumerate(self.mutant.wire):
            version = request.header.request_api_version
            if change.api != request.api or not chosen(version, change.versions):
                continue
            if change.after and not self.answered[change.after]:
                continue
            if all(wanted in list(values(request.body, name)) for name, wanted in change.where.items()):
                if not change.error:
                    self.counts[index] += 1
                    if not chosen(self.counts[index], change.nth):
                        continue
                found.append(change)
        return found

    def changed(self, request: Passing, change: Change) -> None:
        """Set the fields of a request."""
        index = self.mutant.wire.index(change)
        for name, value in change.set.items():
            if value == "first":
                now = next(values(request.body, name), None)
                value = self.firsts.setdefault((index, name), now)
            set_values(request.body, name, value)


class Connection:
    """A client's connection and the one behind it."""

    def __init__(self, cluster: Cluster, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.cluster, self.reader, self.writer = cluster, reader, writer
        self.waiting: deque[Passing] = deque()

    async def run(self, host: str, port: int) -> None:
        """Until one of both sides hangs up."""
        try:
            self.up_reader, self.up_writer = await asyncio.open_connection(host, port, limit=1 << 26)
        except OSError:
            self.writer.close()
            return
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self.requests())
                both.create_task(self.answers())
        except* (OSError, asyncio.IncompleteReadError):
            pass
        except* Exception as wrong:
            traceback.print_exception(wrong)
        finally:
            self.writer.close()
            self.up_writer.close()

    async def requests(self) -> None:
        while True:
            frame = await one_frame(self.reader)
            header, at = header_of(frame)
            version = header.request_api_version
            try:
                cls = registry.request_type(header.request_api_key)
                body = registry.decode(cls, frame[at:], version, exact=False)
            except (DecodeError, KeyError, ValueError):
                body = None
            request = Passing(header, body, frame, [])
            if body is not None:
                request.changes = self.cluster.meant(request)
            for change in request.changes:
                self.cluster.changed(request, change)
            if body is not None and any(change.set for change in request.changes):
                request.frame = frame[:at] + registry.encode(body, version)
            if any(change.swallow for change in request.changes):
                self.told(request, well(request))
                continue
            if any(change.early for change in request.changes):
                self.told(request, well(request))
                request.forward = False
            if any(change.added for change in request.changes):
                self.send(adding(request, self.cluster))
            self.send(request)
            self.send_late(f"{request.api} sent")
            for change in request.changes:
                for when in filter(None, (change.late, change.meanwhile and f"{change.meanwhile} sent")):
                    self.cluster.late.append((when, self, request))
                for _ in range(change.again):
                    self.send(self.copy(request))

    def copy(self, request: Passing) -> Passing:
        self.cluster.copies += 1
        frame = request.frame[:4] + LENGTH.pack(self.cluster.copies) + request.frame[8:]
        return Passing(request.header, request.body, frame, [], forward=False)

    def send(self, request: Passing) -> None:
        if not (request.api == "PRODUCE" and getattr(request.body, "acks", -1) == 0):
            self.waiting.append(request)
        self.up_writer.write(LENGTH.pack(len(request.frame)) + request.frame)

    async def answers(self) -> None:
        while True:
            frame = await one_frame(self.up_reader)
            request = self.waiting.popleft()
            version, key = request.header.request_api_version, request.header.request_api_key
            _, at = registry.reader(ResponseHeader, registry.response_header_version(key, version))(
                memoryview(frame), 0
            )
            try:
                body: Any = registry.decode(registry.response_type(key), frame[at:], version, exact=False)
            except (DecodeError, KeyError, ValueError):
                self.told_frame(request, frame)
                continue
            error = ErrorCode(first_error(body)).name
            if not request.forward:
                continue
            if await self.changed(request, body, error):
                continue
            self.told_frame(request, frame[:at] + registry.encode(body, version))
            if error == "NONE":
                self.cluster.answered[request.api] += 1
            self.send_late(request.api)

    async def changed(self, request: Passing, body: Any, error: str) -> bool:
        """Change an answer; whether the client gets none, for now."""
        for change in request.changes:
            if change.error and error not in change.error:
                continue
            if change.hammer > request.hammered:
                request.hammered += 1
                self.send(request)
                return True
            if change.hang_up:
                raise ConnectionResetError
            for name, value in change.answer.items():
                set_values(body, name, value)
        if request.api == "METADATA":
            self.cluster.topics.update({topic.topic_id: topic.name for topic in body.topics})
        if request.api == "API_VERSIONS":
            believe(body, self.cluster.mutant)
        await self.stand_ins(body)
        return False

    def send_late(self, api: str) -> None:
        late, self.cluster.late = self.cluster.late, [each for each in self.cluster.late if each[0] != api]
        for when, connection, request in late:
            if when == api:
                copy = connection.copy(request)
                following(copy)
                connection.send(copy)

    async def stand_ins(self, body: Any) -> None:
        """Name the stand-ins in the place of the brokers."""
        for field in ("brokers", "coordinators", "node_endpoints"):
            for broker in getattr(body, field, None) or []:
                if getattr(broker, "host", ""):
                    broker.port = await self.cluster.port_for(broker.host, broker.port)
                    broker.host = "127.0.0.1"
        if getattr(body, "host", ""):
            body.port = await self.cluster.port_for(body.host, body.port)
            body.host = "127.0.0.1"

    def told(self, request: Passing, body: Any) -> None:
        version, key = request.header.request_api_version, request.header.request_api_key
        header_version = registry.response_header_version(key, version)
        header = registry.encode(ResponseHeader(request.header.correlation_id), header_version)
        self.told_frame(request, header + registry.encode(body, version))

    def told_frame(self, request: Passing, frame: bytes) -> None:
        if request.forward:
            self.writer.write(LENGTH.pack(len(frame)) + frame)


async def one_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(LENGTH.unpack(await reader.readexactly(4))[0])


def header_of(frame: bytes) -> tuple[RequestHeader, int]:
    key, version = struct.unpack_from(">hh", frame)
    return registry.reader(RequestHeader, registry.request_header_version(key, version))(memoryview(frame), 0)


def values(body: Any, name: str) -> Iterator[Any]:
    """What stands under a name; of lists, that of each element."""
    if name.startswith("batch."):
        for partition in _batches(body):
            yield _read(partition.records, name.removeprefix("batch."))
        return
    head, _, rest = name.partition(".")
    for each in body if isinstance(body, list) else [body]:
        found = getattr(each, head)
        if rest:
            yield from values(found, rest)
        else:
            yield found


def set_values(body: Any, name: str, value: Any) -> None:
    """Set what stands under a name; `+1` and `-1` are added."""
    if name.startswith("batch."):
        for partition in _batches(body):
            partition.records = _written(bytes(partition.records), name.removeprefix("batch."), value)
        return
    head, _, rest = name.partition(".")
    for each in body if isinstance(body, list) else [body]:
        if rest:
            set_values(getattr(each, head), rest, value)
        else:
            setattr(each, head, _added(getattr(each, head), value))


def _added(old: Any, value: Any) -> Any:
    if value == "null":
        return None
    if value == "last":
        return (old or [])[-1:]
    return old + int(value) if isinstance(value, str) and value[:1] in "+-" and value[1:].isdigit() else value


def _batches(produce: Any) -> Iterator[Any]:
    for topic in produce.topic_data:
        for partition in topic.partition_data:
            if partition.records:
                yield partition


def _read(records: Any, name: str) -> Any:
    if name == "transactional":
        return bool(struct.unpack_from(">h", records, ATTRIBUTES)[0] & TRANSACTIONAL)
    at, form = BATCH[name]
    return form.unpack_from(records, at)[0]


def _written(records: bytes, name: str, value: Any) -> bytes:
    changed = bytearray(records)
    if name == "transactional":
        attributes = struct.unpack_from(">h", changed, ATTRIBUTES)[0]
        struct.pack_into(
            ">h", changed, ATTRIBUTES, attributes | TRANSACTIONAL if value else attributes & ~TRANSACTIONAL
        )
    else:
        at, form = BATCH[name]
        form.pack_into(changed, at, _added(form.unpack_from(changed, at)[0], value))
    BATCH_CRC.pack_into(changed, 17, crc32c(bytes(changed[21:])))
    return bytes(changed)


def adding(request: Passing, cluster: Cluster) -> Passing:
    """The request that adds the partitions of a Produce, or the group of a TxnOffsetCommit, to the transaction."""
    body = request.body
    cluster.copies += 1
    message: Any
    if request.api == "PRODUCE":
        at = next(values(body, "batch.producer_id")), next(values(body, "batch.epoch"))
        message, version = AddPartitionsToTxnRequest(), 3
        message.v3_and_below_transactional_id = body.transactional_id
        message.v3_and_below_producer_id, message.v3_and_below_producer_epoch = at
        message.v3_and_below_topics = [
            AddPartitionsToTxnTopic(
                name=str(topic.name or cluster.topics[topic.topic_id]),
                partitions=[each.index for each in topic.partition_data],
            )
            for topic in body.topic_data
        ]
    else:
        message, version = (
            AddOffsetsToTxnRequest(body.transactional_id, body.producer_id, body.producer_epoch, body.group_id),
            4,
        )
    key = registry.api_of(type(message))
    header = RequestHeader(int(key), version, cluster.copies, request.header.client_id)
    frame = registry.encode(header, registry.request_header_version(key, version)) + registry.encode(message, version)
    return Passing(header, message, frame, [], forward=False)


def following(request: Passing) -> None:
    """Make a copy of a Produce the next batch of its partitions."""
    if request.api != "PRODUCE":
        return
    _, at = header_of(request.frame)
    version = request.header.request_api_version
    body: Any = registry.decode(registry.request_type(request.header.request_api_key), request.frame[at:], version)
    for partition in _batches(body):
        count = struct.unpack_from(">i", partition.records, 57)[0]
        partition.records = _written(bytes(partition.records), "sequence", f"+{count}")
    request.frame = request.frame[:at] + registry.encode(body, version)


def believe(body: Any, mutant: Mutant) -> None:
    """Of ApiVersions."""
    for api in body.api_keys:
        name = registry.NAMES.get(api.api_key, "")
        if name in mutant.cap:
            api.max_version = min(api.max_version, mutant.cap[name])
    for feature in body.finalized_features:
        if feature.name in mutant.features:
            feature.max_version_level = feature.min_version_level = mutant.features[feature.name]
    body.finalized_features = [each for each in body.finalized_features if each.max_version_level > 0]


def _well_add_partitions(request: Any, response: Any) -> None:
    from odradek.wire.messages import add_partitions_to_txn_response as messages

    for topic in request.v3_and_below_topics:
        results = [messages.AddPartitionsToTxnPartitionResult(partition, 0) for partition in topic.partitions]
        response.results_by_topic_v3_and_below.append(messages.AddPartitionsToTxnTopicResult(topic.name, results))


def _well_produce(request: Any, response: Any) -> None:
    from odradek.wire.messages import produce_response as messages

    for topic in request.topic_data:
        answered = messages.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id)
        for partition in topic.partition_data:
            answered.partition_responses.append(messages.PartitionProduceResponse(index=partition.index, base_offset=0))
        response.responses.append(answered)


def _well_offsets(request: Any, response: Any) -> None:
    from odradek.wire.messages import txn_offset_commit_response as messages

    for topic in request.topics:
        answered = messages.TxnOffsetCommitResponseTopic(name=topic.name)
        if hasattr(topic, "topic_id"):
            answered.topic_id = topic.topic_id
        for partition in topic.partitions:
            answered.partitions.append(messages.TxnOffsetCommitResponsePartition(partition.partition_index, 0))
        response.topics.append(answered)


WELL: dict[str, Callable[[Any, Any], None]] = {
    "PRODUCE": _well_produce,
    "ADD_PARTITIONS_TO_TXN": _well_add_partitions,
    "TXN_OFFSET_COMMIT": _well_offsets,
}


def well(request: Passing) -> Any:
    """The answer that all is well."""
    response = registry.response_type(request.header.request_api_key)()
    if request.api in WELL:
        WELL[request.api](request.body, response)
    return response
