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

BOTH = Failure(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")
NEITHER = Failure(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
TWICE = Failure(ErrorCode.INVALID_REQUEST, "The provided topic name maps to an ID that was already supplied.")
LATE = Failure(ErrorCode.REQUEST_TIMED_OUT)


def delete_topics(
    request: DeleteTopicsRequest, version: int, image: MetadataImage, config: Config, spend: Spend = unlimited
) -> Change[DeleteTopicsResponse]:
    """Delete each topic or refuse it on its own; every entry gets an answer."""
    change: Change[DeleteTopicsResponse] = Change(DeleteTopicsResponse())
    states = request.topics if version >= BY_ID else [DeleteTopicState(name=name) for name in request.topic_names]
    failed = _all_refused(version, config)
    names = Counter(state.name for state in states if state.topic_id == ZERO_UUID)
    ids = Counter(state.topic_id for state in states if state.name is None)
    judged = [(state, _malformed(state, names, ids, image)) for state in states]
    if failed is None and request.timeout_ms <= 0 and any(failure in (None, TWICE) for _, failure in judged):
        # As in Kafka every entry is answered; those without a known topic cost no quota.
        return Change(DeleteTopicsResponse(responses=[_result(state, LATE, image) for state in states]))
    seen: set[tuple[str | None, bytes]] = set()
    for state, malformed in judged:
        key = (state.name, state.topic_id)
        names_none = malformed in (BOTH, NEITHER)
        if not names_none and (key in seen or _is_named_as_well(state, names, image)):
            continue
        seen.add(key)
        outcome = failed or malformed or _find(state, image)
        result = _result(state, outcome, image)
        change.reply.responses.append(result)
        if isinstance(outcome, TopicImage):
            if not spend(len(outcome.partitions)):
                result.error_code, result.error_message = ErrorCode.THROTTLING_QUOTA_EXCEEDED, None
                continue
            change.records.append(RemoveTopicRecord(topic_id=outcome.id))
    return change


def _is_named_as_well(state: DeleteTopicState, names: Counter[str | None], image: MetadataImage) -> bool:
    """Whether another entry names the topic of this id; both then get the answer for the name."""
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


def _all_refused(version: int, config: Config) -> Failure | None:
    if config.delete_topic_enable:
        return None
    if version < TOPIC_DELETION_DISABLED_SINCE:
        return Failure(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
    return Failure(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")


def _malformed(
    state: DeleteTopicState, names: Counter[str | None], ids: Counter[bytes], image: MetadataImage
) -> Failure | None:
    if state.topic_id != ZERO_UUID:
        if state.name is not None:
            return BOTH
        return Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic id.") if ids[state.topic_id] > 1 else None
    if state.name is None:
        return NEITHER
    if names[state.name] > 1:
        return Failure(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
    return TWICE if state.name in image.topics and ids[image.topics[state.name].id] else None


def _find(state: DeleteTopicState, image: MetadataImage) -> TopicImage | Failure:
    if state.name is None:
        topic = image.topic_by_id(state.topic_id)
        return topic or Failure(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")
    topic = image.topic(state.name)
    return topic or Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
