from __future__ import annotations

from collections.abc import Sequence

import pytest
from tests.unit.group.desk import Desk, subscription

from odradek.core.machine import Refused
from odradek.wire.errors import ErrorCode


def names(desk: Desk, states: Sequence[str] = (), types: Sequence[str] = ()) -> list[str]:
    return [group.group_id for group in desk.machine.listed(states, types)]


def some_groups() -> Desk:
    desk = Desk()
    desk.commit(1, group="simple")
    desk.enter(group="joining")
    desk.sync(desk.enter(group="stable"), group="stable")
    return desk


def test_every_group_is_listed_with_what_it_is() -> None:
    listed = some_groups()
    found = {
        group.group_id: (group.protocol_type, group.group_state, group.group_type)
        for group in listed.machine.listed((), ())
    }
    expected = {
        "simple": ("", "Empty", "classic"),
        "joining": ("consumer", "CompletingRebalance", "classic"),
        "stable": ("consumer", "Stable", "classic"),
    }
    assert expected == found


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        (["Stable"], [], ["stable"]),
        ([" stable ", "EMPTY"], [], ["simple", "stable"]),
        (["nonsense"], [], []),
        ([], ["classic"], ["simple", "joining", "stable"]),
        ([], ["Classic", "consumer"], ["simple", "joining", "stable"]),
        ([], ["consumer"], []),
        ([], ["nonsense"], []),
        (["Stable"], ["CLASSIC"], ["stable"]),
        (["Stable"], ["share"], []),
    ],
)
def test_filters(states: list[str], types: list[str], expected: list[str]) -> None:
    assert expected == names(some_groups(), states, types)


def test_a_stable_group_is_described_with_what_its_members_said() -> None:
    desk = Desk()
    joined = desk.reply(desk.join(instance="one"))
    desk.sync(joined, {joined.member_id: b"A"}, instance="one")
    group = desk.machine.describe("g", 5)
    assert ("Stable", "consumer", "range") == (group.group_state, group.protocol_type, group.protocol_data)
    [member] = group.members
    assert (joined.member_id, "one", "client", "/10.0.0.1", subscription(["orders"]), b"A") == (
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        member.member_metadata,
        member.member_assignment,
    )


def test_a_group_that_rebalances_is_described_without_metadata() -> None:
    desk = Desk()
    desk.enter()
    group = desk.machine.describe("g", 5)
    assert ("CompletingRebalance", "consumer", "") == (group.group_state, group.protocol_type, group.protocol_data)
    assert [b""] == [member.member_metadata for member in group.members]


@pytest.mark.parametrize("version", range(6))
def test_before_version_6_a_group_that_is_not_there_is_dead(version: int) -> None:
    desk = Desk()
    group = desk.machine.describe("none", version)
    assert ("Dead", 0, None) == (group.group_state, group.error_code, group.error_message)


def test_from_version_6_a_group_that_is_not_there_is_an_error() -> None:
    desk = Desk()
    group = desk.machine.describe("none", 6)
    assert ("Dead", ErrorCode.GROUP_ID_NOT_FOUND) == (group.group_state, group.error_code)
    assert "Group none not found." == group.error_message


def test_a_deleted_group_is_gone_with_its_offsets_pending_ones_too() -> None:
    desk = Desk()
    desk.commit(1, group="simple")
    desk.txn_commit(5, group="simple", partition=1)
    desk.ask(desk.machine.delete_group, "simple", desk.now)
    desk.end_transaction(7, commit=True)
    assert "Dead" == desk.state("simple")
    assert {} == desk.fetch_all(group="simple")
    desk.fail_over()
    assert [] == names(desk)


def test_only_a_group_without_members_can_be_deleted() -> None:
    desk = some_groups()
    assert Refused(ErrorCode.NON_EMPTY_GROUP) == desk.ask(desk.machine.delete_group, "stable", desk.now)
    assert Refused(ErrorCode.GROUP_ID_NOT_FOUND) == desk.ask(desk.machine.delete_group, "none", desk.now)
