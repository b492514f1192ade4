"""Rules by topic see what the session of a request holds, and not only what the request names."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.host.helpers import fetch_request, topic_id
from tests.unit.share.test_fetch import Reader

from odradek.faults.one_line import rule
from odradek.sim import World
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.fetch_request import ForgottenTopic
from odradek.wire.messages.fetch_response import FetchResponse
from odradek.wire.messages.share_fetch_response import ShareFetchResponse

REFUSED = ErrorCode.NOT_LEADER_OR_FOLLOWER


def errors(response: FetchResponse | ShareFetchResponse) -> dict[int, ErrorCode]:
    return {
        data.partition_index: ErrorCode(data.error_code) for topic in response.responses for data in topic.partitions
    }


@pytest.mark.parametrize("version", [12, 13])
class TestFetch:
    def open(self, world: World, version: int) -> tuple[int, dict[str, Any]]:
        """The id of a session of partitions 0 and 1 of `t`, and how its topic is named."""
        named = {"topic_id": topic_id(world)} if version >= 13 else {"topic": "t"}
        opened = world.client().ask(fetch_request((0, 0), (1, 0), session_epoch=0, **named), version)
        return opened.session_id, named

    def test_what_the_session_holds_is_matched(self, version: int) -> None:
        world = World(topics=["t:2"])
        session_id, _ = self.open(world, version)
        armed = world.arm(rule("FETCH", topic="t", partition=1, error=REFUSED.name))
        request = fetch_request(session_id=session_id, session_epoch=1)
        answer = world.client().ask(request, version)
        assert {0: REFUSED, 1: REFUSED} == errors(answer)
        assert {"topic": ["t"], "partition": [0, 1]} == armed.report().requests[0].ids
        # It was not served: the session stands where it stood.
        again = world.client().ask(request, version)
        assert (ErrorCode.NONE, {}) == (again.error_code, errors(again))

    def test_what_it_forgets_is_not(self, version: int) -> None:
        world = World(topics=["t:2", "u:1"])
        session_id, named = self.open(world, version)
        request = fetch_request(session_id=session_id, session_epoch=1)
        request.forgotten_topics_data = [ForgottenTopic(partitions=[0], **named)]
        world.arm(rule("FETCH", topic="t", partition=1, error=REFUSED.name))
        assert {1: REFUSED} == errors(world.client().ask(request, version)), "it was not served"
        world.client().ask(request, version)
        of_u = world.arm(rule("FETCH", topic="u", error=REFUSED.name))
        of_0 = world.arm(rule("FETCH", topic="t", partition=0, error=REFUSED.name))
        of_1 = world.arm(rule("FETCH", topic="t", partition=1, error=REFUSED.name))
        answer = world.client().ask(fetch_request(session_id=session_id, session_epoch=2), version)
        assert {1: REFUSED} == errors(answer)
        assert [0, 0, 1] == [of_u.hits, of_0.hits, of_1.hits]
        assert ["topic: it has t, not u"] == of_u.report().near_misses[0].failed

    @pytest.mark.parametrize(("session_id", "epoch"), [(None, -1), (None, 0), (7, 1), (2**31 - 1, 1)])
    def test_without_that_session_only_what_is_named(self, version: int, session_id: int | None, epoch: int) -> None:
        world = World(topics=["t:2"])
        known, _ = self.open(world, version)
        armed = world.arm(rule("FETCH", topic="t", error=REFUSED.name))
        request = fetch_request(session_id=known if session_id is None else session_id, session_epoch=epoch)
        world.client().ask(request, version)
        assert 0 == armed.hits


def test_what_the_session_of_a_share_group_holds_is_matched() -> None:
    reader = Reader(2)
    reader.send(0, 1, wait_ms=0)
    reader.world.run()
    armed = reader.world.arm(rule("SHARE_FETCH", group="g", topic="t", partition=1, error=REFUSED.name))
    other = reader.world.arm(rule("SHARE_FETCH", group="g", topic="t", partition=7, error=REFUSED.name))
    answer = reader.send(epoch=1, wait_ms=0)
    reader.world.run()
    assert {0: REFUSED, 1: REFUSED} == errors(answer.response)
    assert (1, 0) == (armed.hits, other.hits)


def test_a_member_without_a_session_has_only_what_it_names() -> None:
    reader = Reader(1)
    armed = reader.world.arm(rule("SHARE_FETCH", topic="t", partition=0, error=REFUSED.name))
    answer = reader.send(epoch=1, wait_ms=0)
    reader.world.run()
    assert (ErrorCode.SHARE_SESSION_NOT_FOUND, 0) == (answer.response.error_code, armed.hits)
