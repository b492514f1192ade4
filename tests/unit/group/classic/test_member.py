from __future__ import annotations

import pytest

from odradek.group.classic.member import GONE, Member, Protocols, protocols_of, rebalance_timeout_of
from odradek.wire.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol


def member(protocols: Protocols = (("range", b"r"), ("sticky", b"s"))) -> Member:
    return Member(
        member_id="m",
        instance_id=None,
        client_id="c",
        client_host="/h",
        rebalance_timeout_ms=1,
        session_timeout_ms=1,
        protocols=protocols,
    )


def test_votes_for_the_first_protocol_that_all_support() -> None:
    assert "range" == member().vote({"range", "sticky"})
    assert "sticky" == member().vote({"sticky", "other"})
    with pytest.raises(AssertionError):
        member().vote({"other"})


def test_metadata_is_that_of_the_protocol() -> None:
    assert b"s" == member().metadata("sticky")
    with pytest.raises(AssertionError):
        member().metadata("other")


def test_a_member_that_waits_needs_no_heartbeats_unless_it_is_new() -> None:
    waiting = member()
    assert not waiting.satisfied
    waiting.join = GONE
    assert waiting.satisfied
    waiting.is_new = True
    assert not waiting.satisfied
    waiting.is_new, waiting.join, waiting.sync = False, None, GONE
    assert waiting.satisfied


def test_of_two_protocols_with_one_name_the_first_counts() -> None:
    twice = [
        JoinGroupRequestProtocol(name="range", metadata=b"1"),
        JoinGroupRequestProtocol(name="range", metadata=b"2"),
    ]
    assert (("range", b"1"),) == protocols_of(twice)


def test_version_0_has_one_timeout_for_both() -> None:
    request = JoinGroupRequest(session_timeout_ms=5, rebalance_timeout_ms=-1)
    assert 5 == rebalance_timeout_of(request, 0)
    request.rebalance_timeout_ms = 9
    assert 9 == rebalance_timeout_of(request, 1)
