"""Descriptions of transactions and groups (KIP-664) were true at some time between request and response.

The events show the states of transactions over time, and the requests of members show how long they were silent.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from odradek.core.internal_topics import CoordinatorKind
from odradek.core.machine import Fact
from odradek.sim.clients.describing_admins import TOPIC, Group, Watcher
from odradek.sim.model.model import Fields
from odradek.sim.model.promises import Problem
from odradek.sim.world.actors import Asked
from odradek.wire.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest
from odradek.wire.messages.heartbeat_request import HeartbeatRequest
from odradek.wire.messages.join_group_request import JoinGroupRequest
from odradek.wire.messages.sync_group_request import SyncGroupRequest

__all__ = ["WORK_MS", "silent_problems", "watchers_problems"]

NEVER = 1 << 62
WORK_MS = 500
"""Extra time for brokers, the network, and the loading of a coordinator."""
HEARD = (JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, ConsumerGroupHeartbeatRequest)
"""The requests by which a member shows that it is alive."""


def watchers_problems(watchers: Iterable[Watcher], facts: Iterable[tuple[int, int, Fact]]) -> Iterator[Problem]:
    """Descriptions that were true at no time between request and response."""
    told = [each for watcher in watchers for each in watcher.told]
    if not told:
        return
    states: dict[str, list[tuple[int, str, str]]] = {}
    epochs: dict[tuple[int, int], list[tuple[int, int]]] = {}
    """(Virtual ms, producer epoch) of the markers, by partition and producer id."""
    truncated: set[int] = set()
    """Partitions whose log was truncated."""
    opened: dict[tuple[int, int, int], int] = {}
    closed: dict[tuple[int, int, int], int] = {}
    for at, _, fact in facts:
        fields: Fields = fact.fields
        if fact.kind == "state_change":
            change = at, fields.get("state_from", ""), fields["state_to"]
            states.setdefault(fields["transactional_id"], []).append(change)
        elif fact.kind == "transaction_opened" and fields["topic"] == TOPIC:
            opened.setdefault((fields["partition"], fields["producer_id"], fields["offset"]), at)
        elif fact.kind == "transaction_closed" and fields["topic"] == TOPIC:
            closed[fields["partition"], fields["producer_id"], fields["first_offset"]] = at
        elif fact.kind == "marker_written" and fields["topic"] == TOPIC:
            written = epochs.setdefault((fields["partition"], fields["producer_id"]), [])
            written.append((at, fields["producer_epoch"]))
        elif fact.kind == "log_truncated" and fields["topic"] == TOPIC:
            truncated.add(fields["partition"])
    for each in told:
        if each.transactional_id:
            changes = states.get(each.transactional_id, [])
            # A new id is Empty when its first record is appended; the event comes when the record is committed.
            before = [state for at, _, state in changes if at < each.asked_at][-1:] or ["Empty"]
            meanwhile = [state for at, _, state in changes if each.asked_at <= at <= each.told_at]
            # A coordinator that loads emits no event for a state that it finds; the next change shows it.
            found = [state for at, state, _ in changes if at >= each.asked_at][:1]
            if each.state not in (*before, *meanwhile, *found):
                yield Problem("wrong description", f"{each.transactional_id} was told to be in {each.state}")
        elif each.partition >= 0:
            marked = [epoch for at, epoch in epochs.get((each.partition, each.producer_id), ()) if at < each.asked_at]
            if each.producer_epoch < max(marked, default=-1) and each.partition not in truncated:
                seen = f"{TOPIC}-{each.partition} told epoch {each.producer_epoch} of producer {each.producer_id}"
                yield Problem("wrong description", f"{seen} after a marker of {max(marked)}")
            if each.first_offset < 0:
                continue
            key = each.partition, each.producer_id, each.first_offset
            if opened.get(key, NEVER) > each.told_at or closed.get(key, NEVER) < each.asked_at:
                where = f"{TOPIC}-{each.partition} at {each.first_offset}"
                yield Problem("wrong description", f"a transaction was told to be open in {where}")


def silent_problems(
    watchers: Iterable[Watcher], asked: Iterable[Asked], facts: Iterable[tuple[int, int, Fact]], group: Group
) -> Iterator[Problem]:
    """Members in a description that had been silent for longer than their session timeout (KIP-62, KIP-848).

    A coordinator that takes over starts all sessions anew. This holds for runs in which no broker stands still.
    """
    heard: dict[str, list[int]] = {}
    for request in asked:
        if not isinstance(request.request, HEARD) or request.request.group_id != group.name:
            continue
        # A request without an answer may have been served until its timeout.
        until = request.at if request.ended_at is None else request.ended_at
        for member_id in (request.request.member_id, getattr(request.response, "member_id", "")):
            heard.setdefault(member_id or "", []).append(until)
    taken_over = [
        at
        for at, _, fact in facts
        if fact.kind == "leadership_taken" and fact.fields["topic"] == CoordinatorKind.GROUP.topic
    ]
    for each in heard.values():
        each.sort()
    for told in (each for watcher in watchers for each in watcher.told if each.members):
        for member_id in told.members:
            last = max(_last(heard.get(member_id, ()), told.asked_at), _last(taken_over, told.asked_at))
            silent_ms = told.asked_at - last
            if last and silent_ms > group.session_ms + WORK_MS:
                yield Problem("silent member", f"{member_id} was in {group.name} after {silent_ms} ms without a word")


def _last(times: Sequence[int], until: int) -> int:
    """The last of these times that is not after `until`; 0 if there is none."""
    number = bisect_right(times, until)
    return times[number - 1] if number else 0
