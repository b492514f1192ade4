"""Deleting topics, by name or by id (Kafka's `ControllerApis.deleteTopics`, rules and texts)."""

from __future__ import annotations

from collections import Counter

from odradek.config.table import Config
from odradek.metadata.change import Change, Failure, Spend, unlimited
from odradek.metadata.image import MetadataImage, TopicImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.delete_topics_response import DeletableTopicResult, DeleteTopicsResponse
from odradek.wire.messages.remove_topic_record import RemoveTopicRecord
from odradek.wire.primitives import ZERO_UUID

__all__ = ["delete_topics"]

BY_ID = 6
"""The first version that can name a topic by id."""
TOPIC_DELETION_DISABLED_SINCE = 3

TWICE = Failure(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")


def delete_topics(
    request: DeleteTopicsRequest, version: int, image: MetadataImage, config: Config, spend: Spend = unlimited
) -> Change[DeleteTopicsResponse]:
    """Each topic is deleted or refused by itself."""
    change: Change[DeleteTopicsResponse] = Change(DeleteTopicsResponse())
    states = request.topics if version >= BY_ID else [DeleteTopicState(name=name) for name in request.topic_names]
    failed = _all_refused(request, version, config)
    names = Counter(state.name for state in states if state.topic_id == ZERO_UUID)
    ids = Counter(state.topic_id for state in states if state.name is None)
    seen: set[tuple[str | None, bytes]] = set()
    for state in states:
        key = (state.name, state.topic_id)
        if key in seen or _is_named_as_well(state, names, image):
            continue
        seen.add(key)
        outcome = failed or _malformed(state, names, ids, image) or _find(state, image)
        result = _result(state, outcome, image)
        change.reply.responses.append(result)
        if isinstance(outcome, TopicImage):
            if not spend(len(outcome.partitions)):
                result.error_code, result.error_message = ErrorCode.THROTTLING_QUOTA_EXCEEDED, None
                continue
            change.records.append(RemoveTopicRecord(topic_id=outcome.id))
    return change


def _is_named_as_well(state: DeleteTopicState, names: Counter[str | None], image: MetadataImage) -> bool:
    """Whether another entry names the topic of this id: the two get one answer, that of the name."""
    topic = image.topic_by_id(state.topic_id) if state.name is None else None
    return topic is not None and names[topic.name] == 1


def _result(state: DeleteTopicState, outcome: TopicImage | Failure, image: MetadataImage) -> DeletableTopicResult:
    if isinstance(outcome, TopicImage):
        return DeletableTopicResult(name=outcome.name, topic_id=outcome.id)
    topic_id = state.topic_id
    if outcome is TWICE:
        assert state.name is not None, "a topic that is named twice has a name"
        topic_id = image.topics[state.name].id
    return DeletableTopicResult(
        name=state.name, topic_id=topic_id, error_code=outcome.error, error_message=outcome.message
    )


def _all_refused(request: DeleteTopicsRequest, version: int, config: Config) -> Failure | None:
    if not config.delete_topic_enable:
        if version < TOPIC_DELETION_DISABLED_SINCE:
            return Failure(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        return Failure(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    return Failure(ErrorCode.REQUEST_TIMED_OUT) if request.timeout_ms <= 0 else None


def _malformed(
    state: DeleteTopicState, names: Counter[str | None], ids: Counter[bytes], image: MetadataImage
) -> Failure | None:
    message = None
    if state.topic_id != ZERO_UUID:
        if state.name is not None:
            message = "You may not specify both topic name and topic id."
        elif ids[state.topic_id] > 1:
            message = "Duplicate topic id."
    elif state.name is None:
        message = "Neither topic name nor id were specified."
    elif names[state.name] > 1:
        message = "Duplicate topic name."
    elif state.name in image.topics and ids[image.topics[state.name].id]:
        return TWICE
    return None if message is None else Failure(ErrorCode.INVALID_REQUEST, message)


def _find(state: DeleteTopicState, image: MetadataImage) -> TopicImage | Failure:
    if state.name is None:
        topic = image.topic_by_id(state.topic_id)
        return topic or Failure(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    topic = image.topic(state.name)
    return topic or Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
