"""What a test can wait for, and what came nearest where it did not come."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, structs

from odradek.control.event_kinds import check_kind
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
from odradek.control.messages.state import TransactionView
from odradek.control.state import group_view, partition_view, transaction_view
from odradek.control.telemetry import matches, push_view, pushes
from odradek.group.consumer.group import ConsumerGroupState
from odradek.group.share.group import ShareGroupState
from odradek.group.states import GroupState
from odradek.group.streams.group import StreamsGroupState
from odradek.txn.states import STATE_NAMES

if TYPE_CHECKING:
    from odradek.control.events import EventRing
    from odradek.net.cluster import RunningCluster

__all__ = ["NotYet", "TookTooLong", "wait_for"]

LOOK_S = 0.005
"""How often state is looked at that no event tells of."""
FORGOTTEN = "none"
GROUP_STATES = tuple(
    dict.fromkeys(
        state.value
        for states in (GroupState, ConsumerGroupState, StreamsGroupState, ShareGroupState)
        for state in states
    )
)
"""Of the groups of every protocol."""
NAMED = "an event, a rule, a transaction, a partition, a group or telemetry"


class NotYet(Struct, frozen=True):
    """It is not so: what there is instead."""

    sentence: str
    nearest: object = None


class TookTooLong(Exception):
    """What was waited for did not come in time; the text is one sentence."""

    def __init__(self, pending: list[NotYet], timeout_ms: int) -> None:
        super().__init__(f"After {timeout_ms} ms: {'; '.join(each.sentence for each in pending)}.")
        self.nearest = [each.nearest for each in pending]


Look = Callable[[], "NotYet | object"]


async def wait_for(body: WaitBody, cluster: RunningCluster, events: EventRing) -> Came:
    """Return when everything that is asked for is so.

    Raises:
        ValueError: nothing is asked for, or a state or a kind of events that there is not.
        LookupError: there is no such rule, or the cluster is removed meanwhile.
        RuntimeError: no broker takes metrics of clients.
        TookTooLong: after `timeout_ms`.
    """
    _check_states(body)
    looks = list(_looks(body, cluster, events))
    if not looks:
        raise ValueError(
            "There is nothing to wait for: name an event, a rule, a transaction, a partition, a group or telemetry."
        )
    began = cluster.loop.time()
    ends = began + body.timeout_ms / 1000
    while True:
        seen = [look() for look in looks]
        pending = [each for each in seen if isinstance(each, NotYet)]
        now = cluster.loop.time()
        if not pending:
            return Came(waited_ms=round((now - began) * 1000), found=seen)
        if events.ended:
            raise LookupError("the cluster was removed or reset meanwhile")
        if now >= ends:
            raise TookTooLong(pending, body.timeout_ms)
        await events.changed(min(LOOK_S, ends - now))


def _check_states(body: WaitBody) -> None:
    """What is mistyped would be waited for in vain."""
    if body.event is not None:
        check_kind(body.event.kind)
    if body.transaction is not None:
        _check_state("a transaction", body.transaction.state, [*STATE_NAMES, FORGOTTEN])
    if body.group is not None and body.group.state is not None:
        _check_state("a group", body.group.state, GROUP_STATES)


def _check_state(what: str, state: str, names: Sequence[str]) -> None:
    if state not in names:
        raise ValueError(f"There is no state {state} of {what}: there are {', '.join(names)}.")


def _looks(body: WaitBody, cluster: RunningCluster, events: EventRing) -> list[Look]:
    found: list[Look] = []
    if body.event is not None:
        found.append(_EventLook(body.event, events))
    if (rule := body.rule) is not None:
        found.append(lambda: _rule(rule, cluster))
    if (transaction := body.transaction) is not None:
        found.append(lambda: _transaction(transaction, cluster))
    if (partition := body.partition) is not None:
        found.append(lambda: _partition(partition, cluster))
    if (group := body.group) is not None:
        found.append(lambda: _group(group, cluster))
    if (telemetry := body.telemetry) is not None:
        found.append(lambda: _telemetry(telemetry, cluster))
    return found


class _EventLook:
    """Looks at each event once, however often it is asked."""

    def __init__(self, wanted: ForEvent, events: EventRing) -> None:
        self._wanted = wanted
        self._events = events
        self._seen = wanted.after
        self._missing = wanted.count
        self._found: object = None
        self._near: object = None
        self._fails: list[str] = []

    def __call__(self) -> object:
        for event in self._events.after(self._seen):
            if self._missing == 0:
                break
            self._seen = event.seq
            if event.kind != self._wanted.kind:
                continue
            fails = [
                f"{name} is {event.fields.get(name)!r}"
                for name, value in self._wanted.fields.items()
                if not _same(event.fields.get(name), value)
            ]
            if fails:
                self._near, self._fails = event, fails
            else:
                self._missing -= 1
                self._found = event
        if self._missing == 0:
            return self._found
        had = self._wanted.count - self._missing
        near = f", the nearest has {', '.join(self._fails)}" if self._near is not None else ""
        return NotYet(f"{had} of {self._wanted.count} event(s) {self._wanted.kind} came{near}", self._near)


def _same(value: object, wanted: object) -> bool:
    """Whether a field of an event has this value; tuples are lists in JSON."""
    if isinstance(value, tuple | list) and isinstance(wanted, list):
        return len(value) == len(wanted) and all(map(_same, value, wanted))
    return value == wanted


def _rule(wanted: ForRule, cluster: RunningCluster) -> object:
    if wanted.hits is None and wanted.held is None:
        wanted = structs.replace(wanted, hits=1)
    report = cluster.rules.get(wanted.name).report()
    if report.hits >= (wanted.hits or 0) and report.held >= (wanted.held or 0):
        return report
    had = f"rule {report.name} had {report.hits} hit(s) and holds {report.held}"
    nearest = f", the nearest request: {report.near_misses[-1]}" if report.near_misses and not report.hits else ""
    return NotYet(had + nearest, report)


def _transaction(wanted: ForTransaction, cluster: RunningCluster) -> object:
    view = transaction_view(cluster, wanted.id)
    if view is None:
        if wanted.state == FORGOTTEN:
            return _forgotten(wanted.id)
        return NotYet(f"no coordinator knows {wanted.id}")
    return view if view.state == wanted.state else NotYet(f"{wanted.id} is in {view.state}", view)


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
    )


def _partition(wanted: ForPartition, cluster: RunningCluster) -> object:
    limits: dict[str, int | None] = {
        "last_stable_offset": wanted.last_stable_offset,
        "high_watermark": wanted.high_watermark,
    }
    name = f"{wanted.topic}-{wanted.partition}"
    try:
        view = partition_view(cluster, wanted.topic, wanted.partition)
    except LookupError as error:
        return NotYet(str(error))
    behind = [
        f"the {what} of {name} is {getattr(view, what)}, not {limit}"
        for what, limit in limits.items()
        if limit is not None and getattr(view, what) < limit
    ]
    return NotYet(", ".join(behind), view) if behind else view


def _group(wanted: ForGroup, cluster: RunningCluster) -> Any:
    view = group_view(cluster, wanted.id)
    if view is None:
        return NotYet(f"no coordinator knows group {wanted.id}")
    if wanted.state not in (None, view.state) or wanted.members not in (None, len(view.members)):
        return NotYet(f"group {wanted.id} is in {view.state} with {len(view.members)} member(s)", view)
    return view


def _telemetry(wanted: ForTelemetry, cluster: RunningCluster) -> object:
    taken = pushes(cluster)
    found = [each for each in taken if matches(each[1], wanted.metric, wanted.client_id, wanted.terminating)]
    if len(found) >= wanted.count:
        return push_view(*found[wanted.count - 1], wanted.metric)
    nearest = push_view(*taken[-1], wanted.metric) if taken else None
    return NotYet(f"{len(found)} of {wanted.count} push(es) came that are so, {len(taken)} in all", nearest)
