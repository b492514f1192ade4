"""CreateTopics, DeleteTopics, CreatePartitions; the controller decides."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cache, partial
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from odradek.access.acls import AclOperation, AclResource
from odradek.access.needs import TEXTS, allowed_on_each, asks, part_of, resource_name, serve_part
from odradek.host.endpoint import endpoint
from odradek.host.in_parts import entries_in_parts
from odradek.metadata.change import unlimited
from odradek.metadata.partitions import partitions_added
from odradek.metadata.topics import partitions_wanted
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.apis import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from odradek.wire.messages.create_partitions_response import CreatePartitionsResponse, CreatePartitionsTopicResult
from odradek.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.core.machine import Decision
    from odradek.host.call import Call, Serve
    from odradek.host.forwarding import Forwarding
    from odradek.host.host import Host
    from odradek.limits.quotas import MutationQuota
    from odradek.metadata.change import Spend
    from odradek.metadata.controller import Controller
    from odradek.metadata.image import MetadataImage
    from odradek.wire.messages.create_partitions_request import CreatePartitionsRequest
    from odradek.wire.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
    from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState

__all__ = [
    "TopicApi",
]


TOPICS_AT_ONCE = 50
"""Topics that are deleted or grow before other clients are served; freeing their memory takes time."""
CREATED_AT_ONCE = 15
"""Topics that are created in one part; brokers process the metadata after each part."""
PARTITIONS_AT_ONCE = 1_000
"""Topics with more partitions are processed one at a time."""


TOPIC, FORBIDDEN = AclResource.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED
MESSAGES_SINCE = 5
"""The first version of DeleteTopics with messages in the answer."""
IDS_SINCE = 6
"""The first version of DeleteTopics with topic ids."""
NO_ID = bytes(16)


@asks("CREATE on the cluster, or on each topic; DESCRIBE_CONFIGS on a topic to hear how it came out")
async def _may_create(
    authority: Authority, call: Call[CreateTopicsRequest], serve: Serve[CreateTopicsRequest, CreateTopicsResponse]
) -> CreateTopicsResponse:
    everything = authority.allows(call, AclOperation.CREATE)
    kept: list[CreatableTopic] = []
    refused: list[CreatableTopic] = []
    for topic in call.request.topics:
        good = everything or authority.allows(call, AclOperation.CREATE, TOPIC, topic.name)
        (kept if good else refused).append(topic)
    if kept or not refused:
        response = await serve_part(serve, call, lambda request: request.topics, kept)
    else:
        response = CreateTopicsResponse()
    for result in response.topics:
        if result.error_code == ErrorCode.NONE and not authority.allows(
            call, AclOperation.DESCRIBE_CONFIGS, TOPIC, result.name
        ):
            result.num_partitions = result.replication_factor = -1
            result.configs, result.topic_config_error_code = [], FORBIDDEN
    names = dict.fromkeys(topic.name for topic in refused)
    response.topics += [
        CreatableTopicResult(name=name, error_code=FORBIDDEN, error_message="Authorization failed.") for name in names
    ]
    return response


@asks("DELETE on each topic; DESCRIBE on it to hear its name")
async def _may_delete(
    authority: Authority, call: Call[DeleteTopicsRequest], serve: Serve[DeleteTopicsRequest, DeleteTopicsResponse]
) -> DeleteTopicsResponse:
    """Hide the name of a topic from a client that names it by id and may not describe it.

    A client that may describe a name learns that there is no such topic before its permission to delete is checked.
    """

    def refusal_of(name: str | None, topic_id: bytes, *, by_name: bool) -> DeletableTopicResult | None:
        known = resource_name(authority, name, topic_id)
        if known is None or authority.allows(call, AclOperation.DELETE, TOPIC, known):
            return None
        may_describe = authority.allows(call, AclOperation.DESCRIBE, TOPIC, known)
        if by_name and authority.metadata.image.topic(known) is None and may_describe:
            return None
        return DeletableTopicResult(
            name=known if by_name or may_describe else None,
            topic_id=NO_ID if by_name else topic_id,
            error_code=FORBIDDEN,
            error_message=TEXTS[FORBIDDEN] if call.version >= MESSAGES_SINCE else None,
        )

    answers: list[DeletableTopicResult] = []
    if call.version >= IDS_SINCE:
        states = [
            (topic, refusal_of(topic.name, topic.topic_id, by_name=bool(topic.name))) for topic in call.request.topics
        ]
        answers = [answer for _, answer in states if answer is not None]
        kept_states = [topic for topic, answer in states if answer is None]
        part = part_of(call, lambda request: request.topics, kept_states)
        is_over = not kept_states
    else:
        names = [(name, refusal_of(name, NO_ID, by_name=True)) for name in call.request.topic_names]
        answers = [answer for _, answer in names if answer is not None]
        kept = [name for name, answer in names if answer is None]
        part = part_of(call, lambda request: request.topic_names, kept)
        is_over = not kept
    if not answers:
        return await serve(call)
    if is_over:
        return DeleteTopicsResponse(responses=answers)
    try:
        response = await serve(part)
    finally:
        call.is_long = call.is_long or part.is_long
    response.responses += answers
    return response


class TopicApi:
    """CreateTopics, DeleteTopics, CreatePartitions."""

    def __init__(self, node: Host, forwarding: Forwarding) -> None:
        self._forwarding = forwarding
        self._metadata = node.metadata
        self._turns = node.turns

    @endpoint(CREATE_TOPICS, needs=_may_create)
    async def create_topics(self, call: Call[CreateTopicsRequest]) -> CreateTopicsResponse:
        """CreateTopics (key 19), versions 0 to 7.

        Version 1 adds validate_only and messages, 4 lets the broker choose the numbers (KIP-464), 5 is flexible and
        answers with the configs (KIP-525), 7 with the topic id (KIP-516).
        """
        request = call.request

        def refuse(part: CreateTopicsRequest, error: ErrorCode, message: str | None) -> CreateTopicsResponse:
            results = [
                CreatableTopicResult(name=topic.name, error_code=error, error_message=message) for topic in part.topics
            ]
            return CreateTopicsResponse(topics=results)

        quota = self._forwarding.quota_of(call)
        if not self._forwarding.is_controller:
            # It is forwarded as a whole, and the controller divides it.
            return await self._forwarding.ask(
                call, partial(_create, request, None, quota), partial(refuse, request), CreateTopicsResponse
            )
        response = CreateTopicsResponse()
        are_large = sum(topic.num_partitions for topic in request.topics) * CREATED_AT_ONCE > (
            PARTITIONS_AT_ONCE * len(request.topics)
        )
        at_once = 1 if are_large else CREATED_AT_ONCE
        wanted = cache(partial(partitions_wanted, request.topics))
        for number, topics in enumerate(entries_in_parts(request.topics, key=lambda topic: topic.name, size=at_once)):
            if number:
                await self._turns.breathe(call)
            part = replace(request, topics=topics)
            decide = partial(_create, part, wanted, quota)
            decided = await self._forwarding.ask(call, decide, partial(refuse, part), CreateTopicsResponse)
            response.topics += decided.topics
        # The answer has all configs of each topic.
        self._turns.weigh(call, sum(1 + len(topic.configs or ()) for topic in response.topics))
        return _throttled(response, quota)

    @endpoint(DELETE_TOPICS, needs=_may_delete)
    async def delete_topics(self, call: Call[DeleteTopicsRequest]) -> DeleteTopicsResponse:
        """DeleteTopics (key 20), versions 0 to 6: 4 is flexible, 5 adds messages, 6 topic ids (KIP-516)."""
        request = call.request

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
            named = None if state.name is None else self._metadata.image.topic(state.name)
            return (state.name or state.topic_id) if named is None else named.id

        quota = self._forwarding.quota_of(call)
        response = await self._forwarding.ask_in_parts(
            call,
            (
                replace(request, topics=part)
                for part in entries_in_parts(request.topics, key=target, size=TOPICS_AT_ONCE)
            )
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

    @endpoint(
        CREATE_PARTITIONS,
        needs=allowed_on_each(
            AclOperation.ALTER,
            TOPIC,
            asked=lambda request: request.topics,
            answered=lambda response: response.results,
            name=lambda topic: topic.name,
        ),
    )
    async def create_partitions(self, call: Call[CreatePartitionsRequest]) -> CreatePartitionsResponse:
        """CreatePartitions (key 37), versions 0 to 3; 2 is flexible."""
        request = call.request

        def refuse(part: CreatePartitionsRequest, error: ErrorCode, message: str | None) -> CreatePartitionsResponse:
            results = [
                CreatePartitionsTopicResult(name=topic.name, error_code=error, error_message=message)
                for topic in part.topics
            ]
            return CreatePartitionsResponse(results=results)

        quota = self._forwarding.quota_of(call)
        if not self._forwarding.is_controller:
            # It is forwarded as a whole, and the controller divides it.
            return await self._forwarding.ask(
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
        response = await self._forwarding.ask_in_parts(
            call,
            (replace(request, topics=part) for part in parts),
            lambda controller, part: controller.create_partitions(part, added=added, spend=_spend(quota)),
            refuse,
            CreatePartitionsResponse,
            lambda joined, more: joined.results.extend(more.results),
        )
        return _throttled(response, quota)


def _create(
    part: CreateTopicsRequest,
    wanted: Callable[[int], int] | None,
    quota: MutationQuota | None,
    controller: Controller,
) -> Decision[CreateTopicsResponse]:
    return controller.create_topics(part, wanted=wanted, spend=_spend(quota))


def _spend(quota: MutationQuota | None) -> Spend:
    return unlimited if quota is None else quota.spend


R = TypeVar("R", CreateTopicsResponse, CreatePartitionsResponse, DeleteTopicsResponse)


def _throttled(response: R, quota: MutationQuota | None) -> R:
    if quota is not None:
        response.throttle_time_ms = quota.throttle_ms
    return response
