"""Deleting topics by name and by id; texts are those of a real broker."""

from tests.unit.metadata.helpers import image_of, override, topic, topic_id

from odradek.config.table import Config
from odradek.metadata.change import Change
from odradek.metadata.deletion import delete_topics
from odradek.metadata.image import MetadataImage
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from odradek.wire.messages.delete_topics_response import DeleteTopicsResponse

IMAGE = image_of(topic("a"), topic("b"), override("retention.ms", "5", of="a"))
TWICE = "The provided topic name maps to an ID that was already supplied."


def delete(*states: DeleteTopicState, timeout_ms: int = 1000, **settings: str) -> Change[DeleteTopicsResponse]:
    config = Config.parse({name.replace("_", "."): value for name, value in settings.items()})
    return delete_topics(DeleteTopicsRequest(topics=list(states), timeout_ms=timeout_ms), 6, IMAGE, config)


def named(name: str) -> DeleteTopicState:
    return DeleteTopicState(name=name)


def known(name: str) -> DeleteTopicState:
    return DeleteTopicState(topic_id=topic_id(name))


def outcomes(change: Change[DeleteTopicsResponse]) -> list[tuple[str | None, bytes, int, str | None]]:
    return [(r.name, r.topic_id, r.error_code, r.error_message) for r in change.reply.responses]


def left(change: Change[DeleteTopicsResponse]) -> MetadataImage:
    return image_of(change.records, base=IMAGE)


def test_by_name_and_by_id() -> None:
    change = delete(named("a"), known("b"))

    assert [("a", topic_id("a"), 0, None), ("b", topic_id("b"), 0, None)] == outcomes(change)
    assert {} == left(change).topics
    assert {} == left(change).configs


def test_old_versions_list_names() -> None:
    change = delete_topics(DeleteTopicsRequest(topic_names=["a", "x"], timeout_ms=9), 3, IMAGE, Config())

    assert [("a", 0), ("x", 3)] == [(r.name, r.error_code) for r in change.reply.responses]
    assert ["b"] == list(left(change).topics)


def test_what_is_not_there() -> None:
    assert [
        ("x", bytes(16), 3, "This server does not host this topic-partition."),
        (None, topic_id("x"), 100, "This server does not host this topic ID."),
    ] == outcomes(delete(named("x"), known("x")))


def test_malformed_entries() -> None:
    both = DeleteTopicState(name="a", topic_id=topic_id("a"))

    assert [
        ("a", topic_id("a"), 42, "You may not specify both topic name and topic id."),
        (None, bytes(16), 42, "Neither topic name nor id were specified."),
    ] == outcomes(delete(both, DeleteTopicState()))
    assert [42] * 4 == [error for *_, error, _ in outcomes(delete(both, both, DeleteTopicState(), DeleteTopicState()))]


def test_a_topic_named_more_than_once_gets_one_answer() -> None:
    assert [("a", bytes(16), 42, "Duplicate topic name.")] == outcomes(delete(named("a"), named("a")))
    assert [(None, topic_id("a"), 42, "Duplicate topic id.")] == outcomes(delete(known("a"), known("a")))
    assert [("a", topic_id("a"), 42, TWICE)] == outcomes(delete(named("a"), known("a")))
    assert [("a", topic_id("a"), 42, TWICE)] == outcomes(delete(known("a"), named("a")))


def test_a_bad_entry_does_not_spoil_a_good_one() -> None:
    both = DeleteTopicState(name="a", topic_id=topic_id("a"))

    change = delete(both, named("a"))

    assert [42, 0] == [response.error_code for response in change.reply.responses]
    assert ["b"] == list(left(change).topics)


def test_in_no_time() -> None:
    change = delete(named("a"), named("x"), timeout_ms=0)

    assert [(7, None), (7, None)] == [(r.error_code, r.error_message) for r in change.reply.responses]
    assert [] == change.records


def test_what_is_malformed_needs_no_time_unless_a_topic_is_looked_for() -> None:
    both = DeleteTopicState(name="a", topic_id=topic_id("a"))

    def errors(*states: DeleteTopicState) -> list[int]:
        return [error for *_, error, _ in outcomes(delete(*states, timeout_ms=0))]

    assert [42, 42] == errors(both, DeleteTopicState())
    assert [42] == errors(named("a"), named("a"))
    assert [7, 7, 7, 7] == errors(both, named("b"), named("a"), named("a"))
    assert [7, 7] == errors(named("a"), known("a"))


def test_where_deletion_is_disabled() -> None:
    change = delete(named("a"), delete_topic_enable="false")
    old = delete_topics(
        DeleteTopicsRequest(topic_names=["a"], timeout_ms=9), 2, IMAGE, Config.parse({"delete.topic.enable": "false"})
    )

    assert [ErrorCode.TOPIC_DELETION_DISABLED] == [response.error_code for response in change.reply.responses]
    assert [ErrorCode.INVALID_REQUEST] == [response.error_code for response in old.reply.responses]
