"""CreateTopics, DeleteTopics, CreatePartitions: decided by the controller."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from odradek.host.forwarding import AsksInParts, ask_controller, ask_in_parts
from odradek.host.in_parts import entries_in_parts
from odradek.host.seams import HasMetadata
from odradek.metadata.change import unlimited
from odradek.metadata.partitions import partitions_added
from odradek.metadata.topics import partitions_wanted
from odradek.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from odradek.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

if TYPE_CHECKING:
    from odradek.core.machine import Decision
    from odradek.host.call import Call
    from odradek.limits.quotas import MutationQuota
    from odradek.metadata.change import Spend
    from odradek.metadata.controller import Controller
    from odradek.metadata.image import MetadataImage
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest
    from odradek.wire.messages.create_topics_request import CreateTopicsRequest
    from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

__all__ = ["create_partitions", "create_topics", "delete_topics"]


TOPICS_AT_ONCE = 50
"""Topics that are deleted or grow before others may go on; the memory of each goes with it."""
CREATED_AT_ONCE = 15
"""Topics that are created at a time; the metadata that follows is looked through for each part."""
PARTITIONS_AT_ONCE = 1_000
"""Topics of more partitions are dealt with one at a time."""


class Node(AsksInParts, HasMetadata, Protocol):
    """What these routes touch of their broker."""


async def create_topics(node: Node, call: Call) -> CreateTopicsResponse:
    """CreateTopics (key 19), versions 0 to 7.

    Version 1 adds validate_only and messages, 4 lets the broker choose the numbers (KIP-464), 5 is flexible and tells
    what came out (KIP-525), 7 tells the topic id (KIP-516).
    """
    request: CreateTopicsRequest = call.request

    def refuse(part: CreateTopicsRequest, error: ErrorCode, message: str | None) -> CreateTopicsResponse:
        results = [
            CreatableTopicResult(name=topic.name, error_code=error, error_message=message) for topic in part.topics
        ]
        return CreateTopicsResponse(topics=results)

    quota = _quota(node, call)
    if node.controller.active is None:
        # It is passed on as a whole, and shared out there.
        return await ask_controller(
            node, call, partial(_create, request, None, quota), partial(refuse, request), CreateTopicsResponse
        )
    response = CreateTopicsResponse()
    are_large = sum(topic.num_partitions for topic in request.topics) * CREATED_AT_ONCE > (
        PARTITIONS_AT_ONCE * len(request.topics)
    )
    at_once = 1 if are_large else CREATED_AT_ONCE
    wanted = cache(partial(partitions_wanted, request.topics))
    for number, topics in enumerate(entries_in_parts(request.topics, key=lambda topic: topic.name, size=at_once)):
        if number:
            await node.turns.breathe(call)
        part = replace(request, topics=topics)
        decide = partial(_create, part, wanted, quota)
        decided = await ask_controller(node, call, decide, partial(refuse, part), CreateTopicsResponse)
        response.topics += decided.topics
    # What came out is told with all configs of each.
    node.turns.weigh(call, sum(1 + len(topic.configs or ()) for topic in response.topics))
    return _throttled(response, quota)


def _create(
    part: CreateTopicsRequest,
    wanted: Callable[[int], int] | None,
    quota: MutationQuota | None,
    controller: Controller,
) -> Decision[CreateTopicsResponse]:
    return controller.create_topics(part, wanted=wanted, spend=_spend(quota))


def _quota(node: Node, call: Call) -> MutationQuota | None:
    """What the client may change (KIP-599): the controller counts, for whoever it was that asked."""
    if node.quotas is None or node.controller.active is None or (call.is_broker and not call.passed_on):
        return None
    return node.quotas.of_mutations(call)


def _spend(quota: MutationQuota | None) -> Spend:
    return unlimited if quota is None else quota.spend


R = TypeVar("R", CreateTopicsResponse, CreatePartitionsResponse, DeleteTopicsResponse)


def _throttled(response: R, quota: MutationQuota | None) -> R:
    if quota is not None:
        response.throttle_time_ms = quota.throttle_ms
    return response


async def delete_topics(node: Node, call: Call) -> DeleteTopicsResponse:
    """DeleteTopics (key 20), versions 0 to 6: 4 is flexible, 5 adds messages, 6 takes topic ids too (KIP-516)."""
    request: DeleteTopicsRequest = call.request

    def refuse(part: DeleteTopicsRequest, error: ErrorCode, message: str | None) -> DeleteTopicsResponse:
        results = [
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=message)
            for topic in part.topics
        ]
        results += [
            DeletableTopicResult(name=name, error_code=error, error_message=message) for name in part.topic_names
        ]
        return DeleteTopicsResponse(responses=results)

    def target(state: DeleteTopicState) -> Hashable:
        named = None if state.name is None else node.image.topic(state.name)
        return (state.name or state.topic_id) if named is None else named.id

    quota = _quota(node, call)
    response = await ask_in_parts(
        node,
        call,
        (replace(request, topics=part) for part in entries_in_parts(request.topics, key=target, size=TOPICS_AT_ONCE))
        if request.topics
        else (
            replace(request, topic_names=part)
            for part in entries_in_parts(request.topic_names, key=str, size=TOPICS_AT_ONCE)
        ),
        lambda controller, part: controller.delete_topics(part, call.version, _spend(quota)),
        refuse,
        DeleteTopicsResponse,
        lambda joined, more: joined.responses.extend(more.responses),
    )
    return _throttled(response, quota)


async def create_partitions(node: Node, call: Call) -> CreatePartitionsResponse:
    """CreatePartitions (key 37), versions 0 to 3; 2 is flexible."""
    request: CreatePartitionsRequest = call.request

    def refuse(part: CreatePartitionsRequest, error: ErrorCode, message: str | None) -> CreatePartitionsResponse:
        results = [
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
            for topic in part.topics
        ]
        return CreatePartitionsResponse(results=results)

    quota = _quota(node, call)
    if node.controller.active is None:
        # It is passed on as a whole, and shared out there.
        return await ask_controller(
            node,
            call,
            lambda controller: controller.create_partitions(request, spend=_spend(quota)),
            partial(refuse, request),
            CreatePartitionsResponse,
        )
    known: list[int] = []

    def added(image: MetadataImage) -> int:
        if not known:
            known.append(partitions_added(request.topics, image))
        return known[0]

    are_large = sum(topic.count for topic in request.topics) > PARTITIONS_AT_ONCE
    parts = entries_in_parts(request.topics, key=lambda topic: topic.name, size=1 if are_large else TOPICS_AT_ONCE)
    response = await ask_in_parts(
        node,
        call,
        (replace(request, topics=part) for part in parts),
        lambda controller, part: controller.create_partitions(part, added=added, spend=_spend(quota)),
        refuse,
        CreatePartitionsResponse,
        lambda joined, more: joined.results.extend(more.results),
    )
    return _throttled(response, quota)
