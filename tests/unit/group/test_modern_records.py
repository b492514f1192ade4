"""Members and targets of the three newer protocols: what is written is read back, and a tombstone takes it away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
from msgspec import Struct

from odradek.core.machine import LogRecord
from odradek.group.consumer.group import ConsumerGroup
from odradek.group.consumer.member import ConsumerMember
from odradek.group.modern_member import MemberState
from odradek.group.share.group import ShareGroup
from odradek.group.share.member import ShareMember
from odradek.group.streams.group import StreamsGroup
from odradek.group.streams.member import Endpoint, StreamsMember
from odradek.group.streams.tasks import HeldTasks, Tasks
from odradek.records.state import GROUP_RECORDS, Unknown, decode_record

TOPIC, OTHER = b"t" * 16, b"u" * 16
EPOCHS = {TOPIC: {0: 3, 2: 4}, OTHER: {1: 4}}


class Protocol(Struct):
    """One of the protocols, with a group, a member and a target in which every field means something."""

    group: Callable[[], Any]
    member: Any
    target: Any


PROTOCOLS = {
    "consumer": Protocol(
        lambda: ConsumerGroup("g"),
        ConsumerMember(
            "m",
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            topic_names=frozenset({"a", "b"}),
            pattern="t.*",
            rebalance_timeout_ms=7,
            server_assignor="range",
            epoch=4,
            previous_epoch=3,
            state=MemberState.UNREVOKED,
            assigned=EPOCHS,
            revoking={TOPIC: {1: 3}},
        ),
        {TOPIC: frozenset({0, 2}), OTHER: frozenset({1})},
    ),
    "streams": Protocol(
        lambda: StreamsGroup("g"),
        StreamsMember(
            "m",
            instance_id="i",
            rack_id="r",
            client_id="c",
            client_host="/h",
            rebalance_timeout_ms=7,
            topology_epoch=5,
            process_id="p",
            endpoint=Endpoint("e", 9),
            tags=(("k", "v"),),
            epoch=4,
            previous_epoch=3,
            state=MemberState.UNRELEASED,
            assigned=HeldTasks({"0": {0: 3, 1: 4}}, {"1": frozenset({2})}, {"1": frozenset({3})}),
            revoking=HeldTasks({"0": {2: 3}}, {"0": frozenset({3})}, {"1": frozenset({1})}),
        ),
        Tasks({"0": frozenset({0, 1})}, {"1": frozenset({2})}, {"1": frozenset({3})}),
    ),
    "share": Protocol(
        lambda: ShareGroup("g"),
        ShareMember(
            "m",
            rack_id="r",
            client_id="c",
            client_host="/h",
            topic_names=frozenset({"a", "b"}),
            epoch=4,
            previous_epoch=3,
            assigned={TOPIC: frozenset({0, 2})},
        ),
        {TOPIC: frozenset({0, 2}), OTHER: frozenset({1})},
    ),
}


def folded(protocol: Protocol, group: Any, records: Iterable[LogRecord]) -> Any:
    for record in records:
        key, value = decode_record(GROUP_RECORDS, record.key or b"", record.value)
        assert not isinstance(value, Unknown)
        assert group.fold(key, value)
    return group


def pair_of(record: LogRecord) -> tuple[bytes, bytes | None]:
    return record.key or b"", record.value


def written(protocol: Protocol) -> list[LogRecord]:
    records, member = protocol.group().records, protocol.member
    return [
        records.member_record("g", member),
        records.target_record("g", "m", protocol.target),
        records.assignment_epoch_record("g", 4, 1_000),
        records.current_record("g", member),
    ]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_members_and_targets_are_read_as_they_were_written(name: str) -> None:
    protocol = PROTOCOLS[name]
    group = folded(protocol, protocol.group(), written(protocol))
    assert group.members == {"m": protocol.member}
    assert group.targets == {"m": protocol.target}
    assert (group.assignment_epoch, group.assignment_timestamp) == (4, 1_000)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_description_of_a_member_leaves_what_it_has(name: str) -> None:
    protocol = PROTOCOLS[name]
    *_, assignment = records = written(protocol)
    group = folded(protocol, protocol.group(), [assignment, records[0]])
    assert group.members == {"m": protocol.member}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_member_goes_step_by_step(name: str) -> None:
    protocol = PROTOCOLS[name]
    group = folded(protocol, protocol.group(), written(protocol))
    assignment, target, member = protocol.group().records.member_tombstones("g", "m")
    folded(protocol, group, [assignment])
    assert (group.members["m"].epoch, group.members["m"].previous_epoch) == (-1, -1)
    assert not held(group.members["m"])
    folded(protocol, group, [target])
    assert group.targets == {}
    folded(protocol, group, [member])
    assert group.is_empty


def held(member: Any) -> bool:
    """Whether a member has anything."""
    assigned = member.assigned
    return not assigned.is_empty if isinstance(assigned, HeldTasks) else bool(assigned)


@pytest.mark.parametrize("name", PROTOCOLS)
def test_the_last_tombstone_is_that_of_the_group(name: str) -> None:
    protocol = PROTOCOLS[name]
    group = protocol.group()
    *others, last = group.tombstones()
    if name == "streams":
        # Kafka writes that of the topology behind that of the group.
        last, *_ = [others.pop()]
    folded(protocol, group, others)
    key, _ = decode_record(GROUP_RECORDS, last.key or b"", None)
    assert not group.fold(key, None)


@pytest.mark.parametrize("name", ["consumer", "streams"])
def test_partitions_without_epochs_were_assigned_in_that_of_their_member(name: str) -> None:
    protocol = PROTOCOLS[name]
    key, read = decode_record(GROUP_RECORDS, *pair_of(written(protocol)[3]))
    value: Any = read
    listed = value.assigned_partitions if name == "consumer" else value.active_tasks
    for each in listed:
        each.assignment_epochs = []
    group = protocol.group()
    assert group.fold(key, value)
    assigned = group.members["m"].assigned
    epochs = assigned if name == "consumer" else assigned.active
    assert {epoch for indexes in epochs.values() for epoch in indexes.values()} == {4}


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_record_of_another_protocol_is_none_of_this_one(name: str) -> None:
    protocol = PROTOCOLS[name]
    other = PROTOCOLS["share" if name == "consumer" else "consumer"]
    key, value = decode_record(GROUP_RECORDS, written(other)[0].key or b"", None)
    with pytest.raises(AssertionError, match="no record of this protocol"):
        protocol.group().fold(key, value)
