"""The next step of one member towards its target (KIP-1071, "Reconciliation of tasks").

A member gives up what it shall not have, then goes to the epoch of the target, and gets what it shall have as soon as
no other process has it, or another member of its own process does not. A task that changes its role at one member,
between running and keeping a copy, changes it in one step.
Kafka's `CurrentAssignmentBuilder` is the reference for the order of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from odradek.core.machine import Refused
from odradek.group.modern_member import MemberState
from odradek.group.streams.member import StreamsMember
from odradek.group.streams.tasks import NO_HELD_TASKS, Epochs, HeldTasks, Indexes, Tasks, contains, pairs
from odradek.wire.errors import ErrorCode

if TYPE_CHECKING:
    from odradek.group.streams.group import StreamsGroup

__all__ = ["reconciled"]


def reconciled(
    group: StreamsGroup, member: StreamsMember, target_epoch: int, target: Tasks, owned: Tasks | None
) -> StreamsMember | Refused:
    """The member after its next step; the same object if there is none. `owned` is what it says that it has."""
    match member.state:
        case MemberState.STABLE:
            if member.epoch == target_epoch:
                return member
            epoch = member.epoch
        case MemberState.UNREVOKED:
            if _still_has(owned, member.revoking):
                return member
            epoch = member.epoch + 1
        case MemberState.UNRELEASED:
            epoch = member.epoch
        case MemberState.UNKNOWN:
            if owned is None or owned != Tasks():
                sentence = (
                    "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
                )
                return Refused(ErrorCode.FENCED_MEMBER_EPOCH, sentence)
            epoch = target_epoch
    return _advanced(group, member, epoch, target_epoch, target, owned)


NONE: frozenset[int] = frozenset()


class _Difference(Struct):
    """The next step of one kind of tasks: those that stay, those that go, and those that may come."""

    kept: dict[str, set[int]]
    going: dict[str, set[int]]
    coming: dict[str, set[int]]
    held_back: bool
    """Whether others still have some of what shall come."""


def _difference(
    current: Mapping[str, Iterable[int]], target: Indexes, is_taken: Callable[[str, int], bool]
) -> _Difference:
    found = _Difference({}, {}, {}, False)
    for name, has in current.items():
        wanted = target.get(name, NONE)
        kept, going = wanted.intersection(has), set(has) - wanted
        if kept:
            found.kept[name] = set(kept)
        if going:
            found.going[name] = going
    for name, wanted in target.items():
        missing = wanted - found.kept.get(name, NONE)
        coming = {index for index in missing if not is_taken(name, index)}
        found.held_back = found.held_back or len(coming) < len(missing)
        if coming:
            found.coming[name] = coming
    return found


def _advanced(
    group: StreamsGroup, member: StreamsMember, epoch: int, target_epoch: int, target: Tasks, owned: Tasks | None
) -> StreamsMember:
    has, process = member.assigned, member.process_id

    nobody_has_any = group.nobody_has_any

    def kept_elsewhere(name: str, index: int) -> bool:
        """Another member of this process keeps it as a standby."""
        return group.is_standby_of(name, index, process) and not contains(has.standby, name, index)

    def warmed_elsewhere(name: str, index: int) -> bool:
        return group.is_warmup_of(name, index, process) and not contains(has.warmup, name, index)

    def run_elsewhere(name: str, index: int) -> bool:
        return group.active_process(name, index) == process and not contains(has.active, name, index)

    active = _difference(
        has.active,
        target.active,
        lambda name, index: (
            not nobody_has_any
            and (
                group.active_process(name, index) is not None
                or kept_elsewhere(name, index)
                or warmed_elsewhere(name, index)
            )
        ),
    )
    standby = _difference(
        has.standby,
        target.standby,
        lambda name, index: (
            run_elsewhere(name, index) or group.is_standby_of(name, index, process) or warmed_elsewhere(name, index)
        ),
    )
    warmup = _difference(
        has.warmup,
        target.warmup,
        lambda name, index: (
            group.active_process(name, index) == process
            or kept_elsewhere(name, index)
            or group.is_warmup_of(name, index, process)
        ),
    )
    # A member that has run a task has its state, so it keeps a copy from this step on.
    for name, index in pairs(has.active):
        _grant(standby, name, index)
    _change_role(has.standby, standby, warmup)
    _change_role(has.warmup, warmup, standby)
    # A copy of what the member shall run is not given up: it becomes the task.
    for tasks, replica in ((has.standby, standby), (has.warmup, warmup)):
        for name, index in pairs(tasks):
            if contains(target.active, name, index):
                _remove(replica.going, name, index)
    revoking = HeldTasks(_epochs_of(active.going, has.active), _frozen(standby.going), _frozen(warmup.going))
    must_revoke = not revoking.is_empty and _still_has(owned, revoking)
    for tasks, replica in ((has.standby, standby), (has.warmup, warmup)):
        for name, index in pairs(tasks):
            becomes_active = not must_revoke and contains(active.coming, name, index)
            if contains(target.active, name, index) and not becomes_active:
                replica.kept.setdefault(name, set()).add(index)
    kept = HeldTasks(_epochs_of(active.kept, has.active), _frozen(standby.kept), _frozen(warmup.kept))
    if must_revoke:
        return replace(
            member,
            state=MemberState.UNREVOKED,
            previous_epoch=member.epoch,
            epoch=epoch,
            assigned=kept,
            revoking=revoking,
        )
    new = {name: dict.fromkeys(indexes, target_epoch) for name, indexes in active.coming.items()}
    held_back = active.held_back or standby.held_back or warmup.held_back
    return replace(
        member,
        state=MemberState.UNRELEASED if held_back else MemberState.STABLE,
        previous_epoch=member.epoch,
        epoch=target_epoch,
        assigned=HeldTasks(
            {name: {**kept.active.get(name, {}), **new.get(name, {})} for name in dict.fromkeys([*kept.active, *new])},
            _united(standby),
            _united(warmup),
        ),
        revoking=NO_HELD_TASKS,
    )


def _change_role(has: Indexes, outgoing: _Difference, incoming: _Difference) -> None:
    """A task that a member holds in one role and shall hold in another changes its role at once."""
    for name, index in pairs(has):
        if _grant(incoming, name, index):
            _remove(outgoing.going, name, index)


def _grant(difference: _Difference, name: str, index: int) -> bool:
    if not contains(difference.coming, name, index):
        return False
    _remove(difference.coming, name, index)
    difference.kept.setdefault(name, set()).add(index)
    return True


def _remove(tasks: dict[str, set[int]], name: str, index: int) -> None:
    indexes = tasks.get(name)
    if indexes is not None:
        indexes.discard(index)
        if not indexes:
            del tasks[name]


def _epochs_of(tasks: Mapping[str, set[int]], before: Epochs) -> dict[str, dict[int, int]]:
    return {
        name: {index: epoch for index, epoch in before[name].items() if index in indexes}
        for name, indexes in tasks.items()
    }


def _frozen(tasks: Mapping[str, set[int]]) -> dict[str, frozenset[int]]:
    return {name: frozenset(indexes) for name, indexes in tasks.items()}


def _united(difference: _Difference) -> dict[str, frozenset[int]]:
    names = dict.fromkeys([*difference.kept, *difference.coming])
    return {name: frozenset(difference.kept.get(name, set()) | difference.coming.get(name, set())) for name in names}


def _still_has(owned: Tasks | None, revoking: HeldTasks) -> bool:
    """Whether the member has not said that it has given all of this up."""
    if owned is None:
        return True
    return any(
        contains(tasks, name, index)
        for tasks, asked in (
            (owned.active, revoking.active),
            (owned.standby, revoking.standby),
            (owned.warmup, revoking.warmup),
        )
        for name, index in pairs(asked)
    )
