"""The cache of fetch sessions: its shards, and who gives way to whom."""

from __future__ import annotations

from random import Random

import pytest

from odradek.data.fetch_sessions import EVICTION_MS, FetchSession, FetchSessions, SessionPartition, next_epoch
from odradek.wire.errors import ErrorCode

RANGE = (2**31 - 1) // 8
OLD = EVICTION_MS + 1


def cache(slots: int = 8, shards: int = 8) -> FetchSessions:
    return FetchSessions(slots, Random(1), shards=shards)


def opened(sessions: FetchSessions, *, count: int = 1, is_followers: bool = False, now: int = 0) -> FetchSession | None:
    partitions: dict[tuple[object, int], SessionPartition] = {
        ("t", index): SessionPartition("t", bytes(16), index, 0, 0, -1) for index in range(count)
    }
    return sessions.open(partitions, uses_topic_ids=False, is_followers=is_followers, now=now)


def test_sessions_go_to_one_shard_after_the_other() -> None:
    sessions = cache(slots=16)
    shards = [made.session_id // RANGE for _ in range(16) if (made := opened(sessions)) is not None]
    assert shards == [*range(8), *range(8)]
    assert 16 == len(sessions)
    assert opened(sessions) is None


def test_a_turn_is_used_up_where_there_is_no_room() -> None:
    sessions = cache()
    made = [opened(sessions) for _ in range(8)]
    assert made[1] is not None
    sessions.close(made[1].session_id)
    assert opened(sessions) is None, "the first shard is full"
    assert opened(sessions) is not None


@pytest.mark.parametrize(
    ("session_id", "is_there"),
    [(0, True), (8 * RANGE - 1, True), (8 * RANGE, False), (1 - RANGE, True), (-RANGE, False), (-(2**31), False)],
)
def test_ids_of_no_shard(session_id: int, is_there: bool) -> None:
    assert cache().is_of_a_shard(session_id) is is_there


def test_one_shard_has_all_ids() -> None:
    assert cache(shards=1).is_of_a_shard(2**31 - 1)


def test_a_session_that_is_not_used_gives_way() -> None:
    sessions = cache(slots=1, shards=1)
    first = opened(sessions)
    assert first is not None
    assert opened(sessions, now=EVICTION_MS) is None
    assert opened(sessions, now=OLD) is not None
    assert sessions.get(first.session_id) is None


def test_an_old_session_gives_way_to_one_of_more_partitions() -> None:
    sessions = cache(slots=1, shards=1)
    first = opened(sessions, count=2)
    assert first is not None
    sessions.touch(first, EVICTION_MS)
    assert opened(sessions, count=3, now=EVICTION_MS) is None, "it is not old enough"
    sessions.touch(first, OLD)
    assert opened(sessions, count=2, now=OLD) is None
    assert opened(sessions, count=3, now=OLD) is not None


def test_the_session_of_fewest_partitions_gives_way() -> None:
    sessions = cache(slots=3, shards=1)
    made = [opened(sessions, count=count) for count in (2, 1, 3)]
    for each in made:
        assert each is not None
        sessions.touch(each, OLD)
    assert opened(sessions, count=9, now=OLD) is not None
    assert [False, True, False] == [each is not None and sessions.get(each.session_id) is None for each in made]


def test_a_consumer_gives_way_to_a_follower_at_once() -> None:
    sessions = cache(slots=1, shards=1)
    consumers = opened(sessions, count=5)
    followers = opened(sessions, is_followers=True)
    assert consumers is not None
    assert followers is not None
    assert sessions.get(consumers.session_id) is None
    assert opened(sessions, is_followers=True, count=9) is None, "followers are equals until one is old"
    sessions.touch(followers, OLD)
    assert opened(sessions, count=9, now=OLD) is None, "a follower is worth more than any consumer"
    assert opened(sessions, is_followers=True, count=2, now=OLD) is not None


def test_what_a_request_goes_on_with() -> None:
    sessions = cache()
    session = opened(sessions)
    assert session is not None
    expected = [
        sessions.expect(session.session_id, 1, uses_topic_ids=False),
        sessions.expect(session.session_id, 2, uses_topic_ids=False),
        sessions.expect(session.session_id, 1, uses_topic_ids=True),
        sessions.expect(0, 1, uses_topic_ids=False),
    ]
    assert expected == [
        session,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ]


def test_epochs_begin_again_behind_the_last() -> None:
    assert [2, 1] == [next_epoch(1), next_epoch(2**31 - 1)]
