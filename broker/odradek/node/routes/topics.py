"""CreateTopics, DeleteTopics, CreatePartitions: decided by the controller."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeVar

from msgspec.structs import replace

from odradek.metadata.change import unlimited
from odradek.node.routes.forwarding import AsksController, ask_controller
from odradek.node.seams import HasTurns
from odradek.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from odradek.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

if TYPE_CHECKING:
    from odradek.log.machine import Decision
    from odradek.metadata.change import Spend
    from odradek.metadata.controller import Controller
    from odradek.node.quotas.quotas import MutationQuota
    from odradek.node.transport.call import Call
    from odradek.wire.errors import ErrorCode
    from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest
    from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
    from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest

__all__ = ["create_partitions", "create_topics", "delete_topics"]


class Node(AsksController, HasTurns, Protocol):
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

    named: dict[str, list[CreatableTopic]] = {}
    for topic in request.topics:
        named.setdefault(topic.name, []).append(topic)
    quota = _quota(node, call)
    if node.controller.active is None:
        # It is passed on as a whole, and shared out there.
        return await ask_controller(
            node, call, partial(_create, request, request, quota), partial(refuse, request), CreateTopicsResponse
        )
    response = CreateTopicsResponse()
    async for some in node.turns.share(call, list(named.values())):
        part = replace(request, topics=[topic for of_one_name in some for topic in of_one_name])
        decide = partial(_create, part, request, quota)
        decided = await ask_controller(node, call, decide, partial(refuse, part), CreateTopicsResponse)
        response.topics += decided.topics
    return _throttled(response, quota)


def _create(
    part: CreateTopicsRequest, whole: CreateTopicsRequest, quota: MutationQuota | None, controller: Controller
) -> Decision[CreateTopicsResponse]:
    return controller.create_topics(part, whole=whole, spend=_spend(quota))


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

    def refuse(error: ErrorCode, message: str | None) -> DeleteTopicsResponse:
        results = [
            DeletableTopicResult(name=topic.name, topic_id=topic.topic_id, error_code=error, error_message=message)
            for topic in request.topics
        ]
        results += [
            DeletableTopicResult(name=name, error_code=error, error_message=message) for name in request.topic_names
        ]
        return DeleteTopicsResponse(responses=results)

    quota = _quota(node, call)
    response = await ask_controller(
        node,
        call,
        lambda controller: controller.delete_topics(request, call.version, _spend(quota)),
        refuse,
        DeleteTopicsResponse,
    )
    return _throttled(response, quota)


async def create_partitions(node: Node, call: Call) -> CreatePartitionsResponse:
    """CreatePartitions (key 37), versions 0 to 3; 2 is flexible."""
    request: CreatePartitionsRequest = call.request

    def refuse(error: ErrorCode, message: str | None) -> CreatePartitionsResponse:
        results = [
            CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
            for topic in request.topics
        ]
        return CreatePartitionsResponse(results=results)

    quota = _quota(node, call)
    response = await ask_controller(
        node,
        call,
        lambda controller: controller.create_partitions(request, _spend(quota)),
        refuse,
        CreatePartitionsResponse,
    )
    return _throttled(response, quota)
