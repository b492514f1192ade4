"""Promises of lookups: a broker answers from its metadata, never goes back to older metadata, and gets news in time.

Brokers may lag behind the controller, and so may their answers. An answer must be true in an image that the broker had
between request and response, according to the metadata log. No answer names a broker that is fenced in that image.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heappop, heappush
from types import MappingProxyType

from msgspec import Struct

from odradek.core.internal_topics import CoordinatorKind, partition_for
from odradek.log.log_store import LogStore
from odradek.metadata.controller_role import METADATA_TOPIC_ID
from odradek.metadata.image import NO_LEADER, BrokerImage, MetadataImage
from odradek.metadata.loader import MetadataLoader
from odradek.sim.clients.directories import coordinators_told, key_type
from odradek.sim.clients.lookup_clients import NEWS_MS
from odradek.sim.model.promises import Problem
from odradek.sim.schedules.schedule import REMADE
from odradek.sim.world.actors import Asked
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import FetchRequest
from odradek.wire.messages.fetch_response import PartitionData
from odradek.wire.messages.find_coordinator_request import FindCoordinatorRequest
from odradek.wire.messages.find_coordinator_response import Coordinator
from odradek.wire.messages.metadata_request import MetadataRequest
from odradek.wire.messages.metadata_response import MetadataResponse
from odradek.wire.messages.produce_request import ProduceRequest
from odradek.wire.messages.produce_response import PartitionProduceResponse

__all__ = ["epoch_problems", "lookup_problems", "metadata_images"]

KINDS = {key_type(kind): kind for kind in (CoordinatorKind.GROUP, CoordinatorKind.TRANSACTION)}


class Said(Struct, frozen=True):
    """One statement of an answer."""

    what: str
    holds: Callable[[MetadataImage], bool]


class Led(Struct, frozen=True):
    """A partition's leader, in a Metadata response or in the refusal of another request."""

    topic: str
    index: int
    leader: int
    epoch: int
    endpoints: Mapping[int, tuple[str, int]]
    """(Host, port) of brokers, by id."""
    asked_epoch: int = -1
    error: int = 0


def metadata_images(store: LogStore) -> list[MetadataImage]:
    """All images that a broker can have had, from the metadata log."""
    log = store.find(METADATA_TOPIC_ID, 0)
    assert log is not None, "every cluster has one"
    loader = MetadataLoader()
    return [image for batch in log.batches() for image in loader.apply(batch)]


def lookup_problems(
    asked: Sequence[Asked], images: Sequence[MetadataImage], *, calm_at: int, news: int
) -> Iterator[Problem]:
    """Statements that were true in no image that the broker had between request and response.

    Long after the trouble they have to be true in one of these images since `news`, too: the metadata offset of the
    controller when the trouble ended.
    """
    offsets = [image.offset for image in images]
    for each in asked:
        told = _SAID.get(type(each.request))
        if told is None or (each.response is None and each.at < calm_at + NEWS_MS):
            continue
        if each.response is None:
            if isinstance(each.request, FindCoordinatorRequest | MetadataRequest):
                yield Problem("stale lookup", f"{each.name} had no answer of broker {each.node_id}")
            continue
        end = bisect_right(offsets, each.knew_after)
        known = images[max(0, bisect_right(offsets, each.knew) - 1) : end]
        recent = images[max(0, bisect_right(offsets, news) - 1) : end] if each.at >= calm_at + NEWS_MS else known
        for said in told(each):
            if not any(map(said.holds, known)):
                yield Problem("wrong lookup", f"broker {each.node_id} told {each.name} that {said.what}")
            elif not any(map(said.holds, recent)):
                seen = f"broker {each.node_id} told {each.name} that {said.what}, long after the trouble"
                yield Problem("stale lookup", seen)


def epoch_problems(asked: Sequence[Asked]) -> Iterator[Problem]:
    """The leader epochs in a broker's answers never go back, and a fenced client is told a newer epoch than its own."""
    known: dict[tuple[int, str, int], int] = {}
    under_way: list[tuple[int, tuple[int, str, int], int]] = []
    """(Virtual ms, partition at a broker, epoch) of answers that came after later requests were sent."""
    for each in asked:
        if each.response is None or each.ended_at is None or type(each.request) not in _EPOCHS:
            continue
        while under_way and under_way[0][0] < each.at:
            _, key, epoch = heappop(under_way)
            known[key] = max(known.get(key, -1), epoch)
        for led in _EPOCHS[type(each.request)](each):
            where = f"{led.topic}-{led.index}"
            if led.topic == REMADE:
                continue
            key = each.node_id, led.topic, led.index
            if led.epoch < known.get(key, -1):
                seen = f"broker {each.node_id} told epoch {led.epoch} of {where} after {known[key]}"
                yield Problem("older epoch", seen)
            if led.error == ErrorCode.FENCED_LEADER_EPOCH and led.epoch <= led.asked_epoch:
                seen = f"broker {each.node_id} fenced epoch {led.asked_epoch} of {where}, and named {led.epoch}"
                yield Problem("older epoch", seen)
            heappush(under_way, (each.ended_at, key, led.epoch))


def _coordinators(asked: Asked) -> Iterator[Said]:
    request = asked.request
    assert isinstance(request, FindCoordinatorRequest)
    kind = KINDS[request.key_type]
    for told in coordinators_told(request.key, asked.response, asked.version):
        if told.error_code == ErrorCode.NONE:
            what = f"{told.key} is coordinated by {told.node_id} at {told.host}:{told.port}"
        elif told.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE:
            what = f"nobody coordinates {told.key}"
        else:
            continue
        yield Said(what, lambda image, told=told: _coordinator_of(image, kind, told.key) == _reached(told))  # type: ignore[misc]


def _coordinator_of(image: MetadataImage, kind: CoordinatorKind, key: str) -> tuple[int, str, int] | None:
    topic = image.topic(kind.topic)
    if topic is None:
        return None
    return _place(image, topic.partitions[partition_for(key, len(topic.partitions))].leader)


def _reached(told: Coordinator) -> tuple[int, str, int] | None:
    return (told.node_id, told.host, told.port) if told.error_code == ErrorCode.NONE else None


def _place(image: MetadataImage, node_id: int) -> tuple[int, str, int] | None:
    """(Id, host, port) of a broker; None if it is not alive."""
    return _told_of(image.brokers[node_id]) if image.is_alive(node_id) else None


def _told_of(broker: BrokerImage) -> tuple[int, str, int]:
    return broker.id, broker.host, broker.port


def _metadata(asked: Asked) -> Iterator[Said]:
    response: MetadataResponse = asked.response
    alive = {(broker.node_id, broker.host, broker.port) for broker in response.brokers}
    yield Said(
        f"{sorted(alive)} are alive",
        lambda image: alive == {_told_of(each) for each in image.brokers.values() if not each.fenced},
    )
    for led in _leaders(asked):
        yield Said(
            f"{led.leader} leads {led.topic}-{led.index} in epoch {led.epoch}",
            lambda image, led=led: _leads(image, led),  # type: ignore[misc]
        )


def _leaders(asked: Asked) -> Iterator[Led]:
    response: MetadataResponse = asked.response
    for topic in response.topics:
        for each in topic.partitions:
            yield Led(topic.name or "", each.partition_index, each.leader_id, each.leader_epoch, {})


def _leads(image: MetadataImage, led: Led) -> bool:
    partition = image.partition(led.topic, led.index)
    if partition is None or partition.leader_epoch != led.epoch:
        return False
    return led.leader == (partition.leader if image.is_alive(partition.leader) else NO_LEADER)


def _hinted(asked: Asked) -> Iterator[Led]:
    response = asked.response
    endpoints = {each.node_id: (each.host, each.port) for each in response.node_endpoints}
    wanted = _wanted_epochs(asked.request)
    for topic, answers in _answers(asked):
        for index, answer in answers:
            hint = answer.current_leader
            if hint.leader_id >= 0 or hint.leader_epoch >= 0:
                asked_epoch = wanted.get(index, -1)
                yield Led(topic, index, hint.leader_id, hint.leader_epoch, endpoints, asked_epoch, answer.error_code)


def _answers(asked: Asked) -> Iterator[tuple[str, list[tuple[int, PartitionProduceResponse | PartitionData]]]]:
    response = asked.response
    if isinstance(asked.request, ProduceRequest):
        for topic in response.responses:
            yield topic.name, [(each.index, each) for each in topic.partition_responses]
    else:
        for topic in response.responses:
            # Consumers that fetch by topic id read only this topic.
            yield topic.topic or "t", [(each.partition_index, each) for each in topic.partitions]


def _wanted_epochs(request: Struct) -> dict[int, int]:
    if not isinstance(request, FetchRequest):
        return {}
    return {each.partition: each.current_leader_epoch for topic in request.topics for each in topic.partitions}


def _hints(asked: Asked) -> Iterator[Said]:
    for led in _hinted(asked):
        yield Said(
            f"{led.leader} leads {led.topic}-{led.index} in epoch {led.epoch}, and not itself",
            lambda image, led=led: _is_named(image, led),  # type: ignore[misc]
        )


def _is_named(image: MetadataImage, led: Led) -> bool:
    """Whether the image has this leader and epoch, and its address if it is alive."""
    partition = image.partition(led.topic, led.index)
    if partition is None or (partition.leader, partition.leader_epoch) != (led.leader, led.epoch):
        return False
    place = _place(image, led.leader)
    return led.endpoints.get(led.leader) == (None if place is None else place[1:])


_SAID: Mapping[type, Callable[[Asked], Iterator[Said]]] = MappingProxyType(
    {
        FindCoordinatorRequest: _coordinators,
        MetadataRequest: _metadata,
        ProduceRequest: _hints,
        FetchRequest: _hints,
    }
)
_EPOCHS: Mapping[type, Callable[[Asked], Iterator[Led]]] = MappingProxyType(
    {MetadataRequest: _leaders, ProduceRequest: _hinted, FetchRequest: _hinted}
)
