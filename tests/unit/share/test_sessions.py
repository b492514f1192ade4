"""Sessions of share groups: which one a connection takes with it, and how partitions take turns."""

from __future__ import annotations

from odradek.share.sessions import FINAL_EPOCH, SharedPartition, ShareSession, ShareSessions
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.share_fetch_request import FetchPartition, FetchTopic, ForgottenTopic, ShareFetchRequest

TOPIC = bytes(15) + b"\x01"


def opened(sessions: ShareSessions, member: str, connection: object) -> ShareSession:
    session = sessions.open("g", member, connection, at_most=10)
    assert isinstance(session, ShareSession)
    return session


def test_a_connection_takes_its_last_session_with_it() -> None:
    sessions = ShareSessions()
    first, last = opened(sessions, "a", 1), opened(sessions, "b", 1)
    assert sessions.disconnected(1) == (last, False)
    assert [first, None] == [sessions.get("g", member) for member in "ab"]
    assert sessions.disconnected(1) is None
    assert sessions.has_any("g")


def test_a_session_that_began_again_elsewhere_stays() -> None:
    sessions = ShareSessions()
    before, now = opened(sessions, "a", 1), opened(sessions, "a", 2)
    assert sessions.disconnected(1) == (before, True)
    assert sessions.get("g", "a") is now
    assert sessions.disconnected(2) == (now, False)
    assert not sessions.has_any("g")


def test_epochs_count_the_requests_and_the_last_one_may_have_any() -> None:
    sessions = ShareSessions()
    session = opened(sessions, "a", 1)
    assert sessions.find("g", "a", 1) is session
    assert ErrorCode.INVALID_SHARE_SESSION_EPOCH is sessions.find("g", "a", 1)
    assert sessions.find("g", "a", FINAL_EPOCH) is session
    assert 2 == session.epoch
    assert ErrorCode.SHARE_SESSION_NOT_FOUND is sessions.find("g", "b", FINAL_EPOCH)


def test_what_was_served_goes_behind_the_others() -> None:
    session = ShareSession("g", "a", partitions={(TOPIC, index): SharedPartition("t") for index in range(4)})
    session.served([(TOPIC, 2), (TOPIC, 0), (TOPIC, 7)])
    assert [1, 3, 2, 0] == [index for _, index in session.partitions]


def test_a_request_in_full_names_each_partition_of_its_session_once() -> None:
    sessions, topic_id = ShareSessions(), bytes(15) + b"\1"
    session = sessions.open("g", "m", object(), at_most=1)
    assert isinstance(session, ShareSession)
    session.partitions = {(topic_id, index): SharedPartition("t") for index in range(3)}
    asked = ShareFetchRequest(
        group_id="g",
        member_id="m",
        share_session_epoch=1,
        topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_index=0)])],
        forgotten_topics_data=[ForgottenTopic(topic_id=topic_id, partitions=[2])],
    )
    full = sessions.in_full(asked)
    assert [0, 1] == [each.partition_index for topic in full.topics for each in topic.partitions]
    begun = ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=0)
    assert sessions.in_full(begun) is begun
