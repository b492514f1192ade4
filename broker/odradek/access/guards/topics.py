"""Topics: who may see them, make them, and remove them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from odradek.access.acls import AclOperation, AclResource
from odradek.access.guards.parts import NO_OPERATIONS, joined, resource_name, serve_part
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from odradek.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from odradek.wire.messages.describe_topic_partitions_response import (
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
)
from odradek.wire.messages.metadata_response import MetadataResponse, MetadataResponseTopic

if TYPE_CHECKING:
    from odradek.access.authority import Authority
    from odradek.access.guards.parts import Node, Serve
    from odradek.host.call import Call

__all__ = ["create_topics", "delete_topics", "describe_topic_partitions", "metadata"]

TOPIC = AclResource.TOPIC
FORBIDDEN = ErrorCode.TOPIC_AUTHORIZATION_FAILED
NULL_MEANS_ALL_SINCE = 1
TELLS_MESSAGE_SINCE = 6
NAMES_SINCE = 6


async def metadata(authority: Authority, node: Node, call: Call, serve: Serve) -> MetadataResponse:
    """Who asks for all topics sees those that it may describe; what it names, and may not see, it is told so."""
    request = call.request
    asked = request.topics
    if asked is None or (call.version < NULL_MEANS_ALL_SINCE and not asked):
        response: MetadataResponse = await serve(node, call)
        response.topics = [each for each in response.topics if _may_describe(authority, call, each.name or "")]
        return _with_operations(authority, call, response)
    kept, refused = [], []
    for topic in asked:
        name = resource_name(node, topic)
        if name and not _may_describe(authority, call, name):
            named = topic.name if topic.name else None
            refused.append(MetadataResponseTopic(error_code=FORBIDDEN, name=named, topic_id=topic.topic_id))
        elif name and request.allow_auto_topic_creation and not _may_come(authority, node, call, name):
            refused.append(MetadataResponseTopic(error_code=FORBIDDEN, name=name))
        else:
            kept.append(topic)
    response = await (serve_part(serve, node, call, "topics", kept) if refused else serve(node, call))
    response = _with_operations(authority, call, response)
    if not kept and call.version < NULL_MEANS_ALL_SINCE:
        response.topics = []
    response.topics += refused
    return response


def _may_describe(authority: Authority, call: Call, name: str) -> bool:
    return authority.allows(call, AclOperation.DESCRIBE, TOPIC, name)


def _may_come(authority: Authority, node: Node, call: Call, name: str) -> bool:
    """Whether a topic is there, or is not made by asking, or may be made by who asks."""
    if node.image.topic(name) is not None or not node.config.auto_create_topics_enable:
        return True
    return authority.allows(call, AclOperation.CREATE) or authority.allows(call, AclOperation.CREATE, TOPIC, name)


def _with_operations(authority: Authority, call: Call, response: MetadataResponse) -> MetadataResponse:
    if response.cluster_authorized_operations != NO_OPERATIONS:
        allowed = authority.allows(call, AclOperation.DESCRIBE)
        response.cluster_authorized_operations = authority.operations(call, AclResource.CLUSTER) if allowed else 0
    if call.request.include_topic_authorized_operations:
        for topic in response.topics:
            topic.topic_authorized_operations = authority.operations(call, TOPIC, topic.name or "")
    return response


async def describe_topic_partitions(
    authority: Authority, node: Node, call: Call, serve: Serve
) -> DescribeTopicPartitionsResponse:
    """The same for DescribeTopicPartitions."""
    asked = call.request.topics
    refused = [topic for topic in asked if not _may_describe(authority, call, topic.name)]
    kept = [topic for topic in asked if topic not in refused]
    if asked and not kept:
        response = DescribeTopicPartitionsResponse()
    else:
        response = await (serve_part(serve, node, call, "topics", kept) if refused else serve(node, call))
    response.topics = [each for each in response.topics if _may_describe(authority, call, each.name or "")]
    for topic in response.topics:
        if topic.topic_authorized_operations != NO_OPERATIONS:
            topic.topic_authorized_operations = authority.operations(call, TOPIC, topic.name or "")
    response.topics += [
        DescribeTopicPartitionsResponseTopic(error_code=FORBIDDEN, name=topic.name) for topic in refused
    ]
    return response


async def create_topics(authority: Authority, node: Node, call: Call, serve: Serve) -> CreateTopicsResponse:
    """CREATE of the cluster, or of each topic; what came out is told to who may DESCRIBE_CONFIGS of it."""
    everything = authority.allows(call, AclOperation.CREATE)
    kept: list[Any] = []
    refused: list[Any] = []
    for topic in call.request.topics:
        good = everything or authority.allows(call, AclOperation.CREATE, TOPIC, topic.name)
        (kept if good else refused).append(topic)
    response = await serve_part(serve, node, call, "topics", kept) if kept or not refused else CreateTopicsResponse()
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


async def delete_topics(authority: Authority, node: Node, call: Call, serve: Serve) -> DeleteTopicsResponse:
    """DELETE of each topic; who names one by its id, and may not even describe it, is not told its name.

    Who may describe a name hears that there is no such topic, before anything is asked about deleting it.
    """
    field = "topics" if call.version >= NAMES_SINCE else "topic_names"
    kept: list[Any] = []
    answers = []
    for entry in getattr(call.request, field):
        name = resource_name(node, entry)
        if name is None or authority.allows(call, AclOperation.DELETE, TOPIC, name):
            kept.append(entry)
            continue
        by_name = isinstance(entry, str) or bool(entry.name)
        if by_name and node.image.topic(name) is None and _may_describe(authority, call, name):
            kept.append(entry)
            continue
        told = name if by_name or _may_describe(authority, call, name) else None
        answers.append(
            DeletableTopicResult(
                name=told,
                topic_id=bytes(16) if by_name else entry.topic_id,
                error_code=FORBIDDEN,
                error_message="Topic authorization failed." if call.version >= TELLS_MESSAGE_SINCE - 1 else None,
            )
        )
    if not answers:
        served: DeleteTopicsResponse = await serve(node, call)
        return served
    refused = DeleteTopicsResponse(responses=answers)
    if not kept:
        return refused
    response: DeleteTopicsResponse = joined([await serve_part(serve, node, call, field, kept), refused], "responses")
    return response
