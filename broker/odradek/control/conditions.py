"""Conditions for which a test can wait, and the nearest state where they are not met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from odradek.control.event_kinds import check_kind
from odradek.control.events import event_body
from odradek.control.messages.events import (
    Came,
    ForEvent,
    ForGroup,
    ForPartition,
    ForRule,
    ForTelemetry,
    ForTransaction,
    WaitBody,
)
from odradek.control.messages.state import PartitionView, TransactionView
from odradek.control.state import (
    group_size,
    group_view,
    partition_offsets,
    partition_view,
    transaction_state,
    transaction_view,
)
from odradek.control.telemetry import matches, push_count, push_view, pushes
from odradek.control.waits import ClusterGone, Condition, NotYet, TookTooLong, waits_of
from odradek.core.wording import counted, meant
from odradek.group.classic.states import GroupState
from odradek.group.consumer.group import ConsumerGroupState
from odradek.group.share.group import ShareGroupState
from odradek.group.streams.group import StreamsGroupState
from odradek.stuck.words import clock
from odradek.txn.states import STATE_NAMES

if TYPE_CHECKING:
    from odradek.control.events import EventRing
    from odradek.net.cluster import RunningCluster
    from odradek.net.recent import Happened, Recent
    from odradek.telemetry.sink import Push

__all__ = ["ClusterGone", "TookTooLong", "wait_for"]

FORGOTTEN = "none"
GROUP_STATES = tuple(
    dict.fromkeys(
        state.value
        for states in (GroupState, ConsumerGroupState, StreamsGroupState, ShareGroupState)
        for state in states
    )
)
"""The states of groups of all protocols."""
NAMED = "an event, a rule, a transaction, a partition, a group or telemetry"


async def wait_for(
    body: WaitBody, cluster: RunningCluster, events: EventRing | None, recent: Recent | None = None
) -> Came:
    """Return when every condition that is given holds.

    `events` are those that can be waited for; `recent`, if there are any, contain states that have passed.

    Raises ValueError for no condition, an unknown state or kind of events; LookupError for an unknown rule; ClusterGone
    if the cluster is removed meanwhile; RuntimeError if no broker accepts metrics; TookTooLong after `timeout_ms`.
    """
    _check_states(body)
    conditions = _conditions(body, cluster, events, recent if events is None else events.recent)
    if not conditions:
        raise ValueError(f"There is nothing to wait for: name {NAMED}.")
    began = cluster.loop.time()
    found = await waits_of(cluster).until(conditions, body.timeout_ms / 1000)
    return Came(waited_ms=round((cluster.loop.time() - began) * 1000), found=found)


def _check_states(body: WaitBody) -> None:
    """Refuse unknown states: a mistyped one would be waited for in vain."""
    if body.event is not None:
        check_kind(body.event.kind)
    if body.transaction is not None:
        _check_state("a transaction", body.transaction.state, [*STATE_NAMES, FORGOTTEN])
    if body.group is not None and body.group.state is not None:
        _check_state("a group", body.group.state, GROUP_STATES)


def _check_state(what: str, state: str, names: Sequence[str]) -> None:
    if state not in names:
        raise ValueError(f"There is no state {state} of {what}: {meant(state, names)}")


def _conditions(
    body: WaitBody, cluster: RunningCluster, events: EventRing | None, recent: Recent | None
) -> list[Condition]:
    found: list[Condition] = []
    if body.event is not None:
        assert events is not None, "who keeps no events is not asked for one"
        found.append(_Event(body.event, events))
    if body.rule is not None:
        found.append(_Rule(body.rule, cluster))
    if body.transaction is not None:
        found.append(_Transaction(body.transaction, cluster, recent))
    if body.partition is not None:
        found.append(_Partition(body.partition, cluster))
    if body.group is not None:
        found.append(_Group(body.group, cluster))
    if body.telemetry is not None:
        found.append(_Telemetry(body.telemetry, cluster))
    return found


class _Event(Condition):
    """Reads the number of the newest event of the kind, and checks each event once."""

    def __init__(self, wanted: ForEvent, events: EventRing) -> None:
        super().__init__(("event", wanted.kind))
        self._wanted = wanted
        self._events = events
        self._seen = wanted.after
        self._missing = wanted.count
        self._found: Happened | None = None
        self._near: Happened | None = None
        self._fails: list[str] = []

    def read(self) -> int:
        return self._events.last_of(self._wanted.kind)

    def holds(self) -> bool:
        if self._missing and self.read() > self._seen:
            for event in self._events.of_kind(self._wanted.kind, self._seen):
                self._look_at(event)
                if not self._missing:
                    break
        return not self._missing

    def _look_at(self, event: Happened) -> None:
        self._seen = event.seq
        fields = event.fact.fields
        fails = [
            f"{name} is {fields.get(name)!r}"
            for name, value in self._wanted.fields.items()
            if not _same(fields.get(name), value)
        ]
        if fails:
            self._near, self._fails = event, fails
        else:
            self._missing -= 1
            self._found = event

    def found(self) -> object:
        return None if self._found is None else event_body(self._found)

    def lacking(self) -> NotYet:
        had = self._wanted.count - self._missing
        near = None if self._near is None else event_body(self._near)
        fails = "" if near is None else f", the nearest has {', '.join(self._fails)}"
        return NotYet(f"{had} of {counted(self._wanted.count, 'event')} {self._wanted.kind} came{fails}", near)


def _same(value: object, wanted: object) -> bool:
    """Whether a field of an event has this value; tuples are lists in JSON."""
    if isinstance(value, tuple | list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_same, value, wanted))
    return value == wanted


class _Rule(Condition):
    """Reads the number of hits of the rule, and of requests that it holds."""

    def __init__(self, wanted: ForRule, cluster: RunningCluster) -> None:
        super().__init__(("rule", wanted.name))
        if wanted.hits is None and wanted.held is None:
            wanted = structs.replace(wanted, hits=1)
        self._wanted = wanted
        self._cluster = cluster

    def read(self) -> tuple[int, int]:
        armed = self._cluster.rules.get(self._wanted.name)
        return armed.hits, armed.held

    def holds(self) -> bool:
        hits, held = self.read()
        return hits >= (self._wanted.hits or 0) and held >= (self._wanted.held or 0)

    def found(self) -> object:
        return self._cluster.rules.get(self._wanted.name).report()

    def lacking(self) -> NotYet:
        report = self._cluster.rules.get(self._wanted.name).report()
        had = f"rule {report.name} had {counted(report.hits, 'hit')} and holds {report.held}"
        nearest = f", the nearest request: {report.near_misses[-1]}" if report.near_misses and not report.hits else ""
        return NotYet(had + nearest, report)


class _Transaction(Condition):
    """Reads the state of the transactional id."""

    def __init__(self, wanted: ForTransaction, cluster: RunningCluster, recent: Recent | None) -> None:
        super().__init__(("transaction", wanted.id))
        self._wanted = wanted
        self._cluster = cluster
        self._recent = recent

    def read(self) -> str | None:
        return transaction_state(self._cluster, self._wanted.id)

    def holds(self) -> bool:
        return (self.read() or FORGOTTEN) == self._wanted.state

    def found(self) -> object:
        return transaction_view(self._cluster, self._wanted.id) or _forgotten(self._wanted.id)

    def lacking(self) -> NotYet:
        view = transaction_view(self._cluster, self._wanted.id)
        if view is None:
            return NotYet(f"no coordinator knows {self._wanted.id}{self._passed()}")
        return NotYet(f"{self._wanted.id} is in {view.state}{self._passed()}", view)

    def _passed(self) -> str:
        """Whether the id has been in the state and left it: then the wait began too late."""
        if self._recent is None:
            return ""
        wanted = {"transactional_id": self._wanted.id, "state_to": self._wanted.state}
        changes = (each for each in self._recent.after(0) if each.fact.kind == "state_change")
        came = [each.at_ms for each in changes if wanted.items() <= each.fact.fields.items()]
        return f", it came to {self._wanted.state} at {clock(came[-1])} and left it" if came else ""


def _forgotten(transactional_id: str) -> TransactionView:
    return TransactionView(
        transactional_id=transactional_id,
        state=FORGOTTEN,
        producer_id=-1,
        producer_epoch=-1,
        coordinator=-1,
        timeout_ms=-1,
        start_ms=-1,
        last_update_ms=-1,
        partitions=[],
        owed_markers=[],
        aborted_at_ms=None,
    )


class _Partition(Condition):
    """Reads the last stable offset and the high watermark of the partition, at its leader."""

    def __init__(self, wanted: ForPartition, cluster: RunningCluster) -> None:
        super().__init__(("partition", wanted.topic, wanted.partition))
        self._wanted = wanted
        self._cluster = cluster

    def read(self) -> tuple[int, int] | None:
        return partition_offsets(self._cluster, self._wanted.topic, self._wanted.partition)

    def holds(self) -> bool:
        offsets = self.read()
        if offsets is None:
            return False
        last_stable_offset, high_watermark = offsets
        return last_stable_offset >= (self._wanted.last_stable_offset or 0) and high_watermark >= (
            self._wanted.high_watermark or 0
        )

    def _view(self) -> PartitionView:
        return partition_view(self._cluster, self._wanted.topic, self._wanted.partition)

    def found(self) -> object:
        return self._view()

    def lacking(self) -> NotYet:
        wanted = self._wanted
        try:
            view = self._view()
        except LookupError as error:
            return NotYet(str(error))
        limits = {"last_stable_offset": wanted.last_stable_offset, "high_watermark": wanted.high_watermark}
        behind = [
            f"the {what} of {wanted.topic}-{wanted.partition} is {getattr(view, what)}, not {limit}"
            for what, limit in limits.items()
            if limit is not None and getattr(view, what) < limit
        ]
        return NotYet(", ".join(behind), view)


class _Group(Condition):
    """Reads the state of the group and its number of members."""

    def __init__(self, wanted: ForGroup, cluster: RunningCluster) -> None:
        super().__init__(("group", wanted.id))
        self._wanted = wanted
        self._cluster = cluster

    def read(self) -> tuple[str, int] | None:
        return group_size(self._cluster, self._wanted.id)

    def holds(self) -> bool:
        size = self.read()
        if size is None:
            return False
        state, members = size
        return self._wanted.state in (None, state) and self._wanted.members in (None, members)

    def found(self) -> object:
        return group_view(self._cluster, self._wanted.id)

    def lacking(self) -> NotYet:
        view = group_view(self._cluster, self._wanted.id)
        if view is None:
            return NotYet(f"no coordinator knows group {self._wanted.id}")
        return NotYet(f"group {view.group_id} is in {view.state} with {counted(len(view.members), 'member')}", view)


class _Telemetry(Condition):
    """Reads the number of pushes that the brokers have accepted; when it grows, checks the stored ones."""

    def __init__(self, wanted: ForTelemetry, cluster: RunningCluster) -> None:
        super().__init__("telemetry")
        self._wanted = wanted
        self._cluster = cluster

    def read(self) -> int:
        return push_count(self._cluster)

    def _matching(self) -> list[tuple[int, Push]]:
        wanted = self._wanted
        return [
            each
            for each in pushes(self._cluster)
            if matches(each[1], wanted.metric, wanted.client_id, wanted.terminating)
        ]

    def holds(self) -> bool:
        return self.read() >= self._wanted.count and len(self._matching()) >= self._wanted.count

    def found(self) -> object:
        return push_view(*self._matching()[self._wanted.count - 1], self._wanted.metric)

    def lacking(self) -> NotYet:
        taken = pushes(self._cluster)
        nearest = push_view(*taken[-1], self._wanted.metric) if taken else None
        found = len(self._matching())
        pushed = counted(self._wanted.count, "push", "pushes")
        return NotYet(f"{found} of {pushed} matched, {len(taken)} came in all", nearest)
