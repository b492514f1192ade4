"""DescribeTopicPartitions: pages of partitions; the cases are recorded from a real broker."""

from __future__ import annotations

from typing import Any

import pytest

from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.describe_topic_partitions_request import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)

Page = tuple[list[tuple[str, list[int]]], tuple[str, int] | None]


@pytest.fixture(scope="module")
def world() -> World:
    return World(topics=["w:4", "w2:2"], config={"odradek.internal.topics.at.start": False})


def describe(world: World, *names: str, limit: int = 2000, cursor: tuple[str, int] | None = None) -> Any:
    request = DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in names],
        response_partition_limit=limit,
        cursor=None if cursor is None else Cursor(topic_name=cursor[0], partition_index=cursor[1]),
    )
    return world.client().ask(request, 0)


def page(response: Any) -> Page:
    cursor = response.next_cursor
    return (
        [(topic.name, [partition.partition_index for partition in topic.partitions]) for topic in response.topics],
        None if cursor is None else (cursor.topic_name, cursor.partition_index),
    )


@pytest.mark.parametrize(
    ("names", "limit", "cursor", "expected"),
    [
        (["w2", "w"], 2000, None, ([("w", [0, 1, 2, 3]), ("w2", [0, 1])], None)),
        (["w2", "w2"], 2000, None, ([("w2", [0, 1])], None)),
        ([], 2000, None, ([("w", [0, 1, 2, 3]), ("w2", [0, 1])], None)),
        (["w", "w2"], 3, None, ([("w", [0, 1, 2])], ("w", 3))),
        (["w", "w2"], 4, None, ([("w", [0, 1, 2, 3])], ("w2", 0))),
        (["w", "w2"], 2, ("w", 3), ([("w", [3]), ("w2", [0])], ("w2", 1))),
        (["w"], 2, ("w", 30), ([("w", [])], None)),
        (["w2"], 0, None, ([("w2", [0])], ("w2", 1))),
        (["w2"], -1, None, ([("w2", [0])], ("w2", 1))),
        (["w2"], 2, None, ([("w2", [0, 1])], None)),
        ([], 3, ("b", 2), ([("w", [0, 1, 2])], ("w", 3))),
        ([], 3, ("w", 2), ([("w", [2, 3]), ("w2", [0])], ("w2", 1))),
    ],
)
def test_pages(world: World, names: list[str], limit: int, cursor: tuple[str, int] | None, expected: Page) -> None:
    assert expected == page(describe(world, *names, limit=limit, cursor=cursor))


@pytest.mark.parametrize("cursor", [("w1", 0), ("w2", -1), ("zzz", 0)])
def test_a_cursor_that_cannot_be(world: World, cursor: tuple[str, int]) -> None:
    response = describe(world, "w", "w2", cursor=cursor)

    assert [(ErrorCode.INVALID_REQUEST, "w"), (ErrorCode.INVALID_REQUEST, "w2")] == [
        (topic.error_code, topic.name) for topic in response.topics
    ]


def test_topics_that_are_not_there(world: World) -> None:
    response = describe(world, "w2", "nope", "a b")

    assert [(17, "a b"), (3, "nope"), (0, "w2")] == [(topic.error_code, topic.name) for topic in response.topics]


def test_lists_are_empty_and_never_null(world: World) -> None:
    # Kafka's Java admin client cannot describe a topic whose lists of eligible leaders are null.
    [topic] = describe(world, "w2").topics

    assert [([], [], [])] * 2 == [
        (p.eligible_leader_replicas, p.last_known_elr, p.offline_replicas) for p in topic.partitions
    ]


def test_a_page_has_a_limit_of_the_broker() -> None:
    world = World(topics=["w:4"], config={"max.request.partition.size.limit": 3})

    assert ([("w", [0, 1, 2])], ("w", 3)) == page(describe(world, "w"))
