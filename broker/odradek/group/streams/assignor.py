"""The assignor `sticky` of the broker: who shall run which task, and who shall keep a copy of its state.

A task stays with the member that runs it, as long as no member has more than its share; then it goes to one that keeps
a standby of it, then to the process that has the least to do. Kafka 4.4's `StickyTaskAssignor` is the reference, down
to how ties are decided; like it, this one assigns no warm-up tasks and does not look at tags of clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from odradek.core.java_order import Heap, hash_order
from odradek.group.streams.tasks import HeldTasks, Tasks, pairs

__all__ = ["MemberSpec", "sticky"]

Task: TypeAlias = tuple[str, int]
"""Subtopology and partition."""


class MemberSpec(Struct, frozen=True):
    """A member as the assignor sees it."""

    process_id: str
    assigned: HeldTasks
    offsets: Sequence[tuple[str, int, int]] = ()
    """How far the state is that the member has on its disk: subtopology, partition, sum of offsets."""


class _Process:
    """A process with its members, and what they have been given so far."""

    def __init__(self, process_id: str) -> None:
        self.process_id = process_id
        self.counts: dict[str, int] = {}
        self.active: dict[str, set[Task]] = {}
        self.standby: dict[str, set[Task]] = {}
        self.tasks: set[Task] = set()
        self._total = 0
        self._by_load: Heap[str] | None = None

    @property
    def load(self) -> float:
        return self._total / len(self.counts)

    def give(self, member_id: str, task: Task, *, active: bool) -> int:
        """Give a task to a member; how many it has now."""
        self._by_load = None
        return self._give(member_id, task, active=active)

    def give_to_least_loaded(self, task: Task, *, active: bool) -> int:
        """Give a task to the member that has the least; how many it has now."""
        if len(self.counts) == 1:
            return self._give(next(iter(self.counts)), task, active=active)
        if self._by_load is None:
            self._by_load = Heap(self.counts.__getitem__, hash_order(self.counts))
        member_id = self._by_load.poll()
        count = self._give(member_id, task, active=active)
        self._by_load.add(member_id)
        return count

    def give_all(self, member_id: str, tasks: Sequence[Task]) -> int:
        """Give active tasks that nobody has to a member; how many it has now."""
        self._by_load = None
        self._total += len(tasks)
        self.tasks.update(tasks)
        self.active.setdefault(member_id, set()).update(tasks)
        self.counts[member_id] += len(tasks)
        return self.counts[member_id]

    def _give(self, member_id: str, task: Task, *, active: bool) -> int:
        self._total += 1
        self.tasks.add(task)
        (self.active if active else self.standby).setdefault(member_id, set()).add(task)
        self.counts[member_id] += 1
        return self.counts[member_id]


class _Quota:
    """How many tasks a member may have: less for the others once one has as many as it may."""

    def __init__(self, tasks: int, members: int) -> None:
        self._tasks, self._members = tasks, members
        self.per_member = _ceil(tasks, members)

    def reached(self, count: int) -> None:
        """A member has so many now."""
        if count == self.per_member:
            self._members -= 1
            self._tasks -= count
            self.per_member = _ceil(self._tasks, self._members)


def _ceil(tasks: int, members: int) -> int:
    return -(-tasks // members) if members else 0


def sticky(
    members: Mapping[str, MemberSpec], subtopologies: Mapping[str, tuple[int, bool]], standbys: int
) -> dict[str, Tasks]:
    """The targets of all members; of each subtopology the number of its tasks, and whether they have state."""
    if not members:
        return {}
    run = _Run(members, subtopologies, standbys)
    run.assign_active()
    if standbys > 0:
        run.assign_standby()
    return run.targets()


class _Run:
    """One assignment."""

    def __init__(
        self, members: Mapping[str, MemberSpec], subtopologies: Mapping[str, tuple[int, bool]], standbys: int
    ) -> None:
        self._members = {member_id: members[member_id] for member_id in hash_order(members)}
        self._standbys = standbys
        self._tasks = [(name, index) for name, (count, _) in subtopologies.items() for index in range(count)]
        self._stateful = [
            (name, index) for name, (count, stateful) in subtopologies.items() if stateful for index in range(count)
        ]
        everything = len(self._tasks) + standbys * len(self._stateful)
        self._active_quota = _Quota(len(self._tasks), len(members))
        self._quota = _Quota(everything, len(members))
        self._processes: dict[str, _Process] = {}
        self._ran: dict[Task, str] = {}
        """The member that has run each task until now."""
        candidates: dict[Task, list[tuple[int, int, str]]] = {}
        for member_id, member in self._members.items():
            process = self._processes.setdefault(member.process_id, _Process(member.process_id))
            process.counts[member_id] = 0
            for task in pairs(member.assigned.active):
                self._ran[task] = member_id
            offsets = {(name, index): offset for name, index, offset in member.offsets}
            kept = set(pairs(member.assigned.standby))
            for task in kept:
                candidates.setdefault(task, []).append((0, -offsets.get(task, 0), member_id))
            for task, offset in offsets.items():
                if task not in kept:
                    candidates.setdefault(task, []).append((1, -offset, member_id))
        # A member with a copy of the task comes first, then those with a part of its state, the largest part first.
        self._kept = {
            task: [member_id for *_, member_id in sorted(found, key=lambda each: each[:2])]
            for task, found in candidates.items()
        }

    def assign_active(self) -> None:
        """Give every task to a member that runs it."""
        left = self._tasks
        # Most groups have neither when all of a large assignment is new.
        if self._ran or self._kept:
            left = sorted(left, key=itemgetter(1, 0))
            left = [task for task in left if not self._stays(task, self._ran.get(task))]
            left = [task for task in left if not self._stays(task, self._least_loaded(self._kept.get(task, ())))]
        if len(self._members) == 1:
            [member_id] = self._members
            if left:
                self._count_active(self._process_of(member_id).give_all(member_id, left))
            return
        by_load = self._by_load()
        alone = next(iter(self._processes.values())) if len(self._processes) == 1 else None
        for task in sorted(left):
            process = alone or by_load.poll()
            self._count_active(process.give_to_least_loaded(task, active=True))
            if alone is None:
                by_load.add(process)

    def _stays(self, task: Task, member_id: str | None) -> bool:
        if member_id is None:
            return False
        process = self._process_of(member_id)
        if process.counts[member_id] >= self._active_quota.per_member:
            return False
        self._count_active(process.give(member_id, task, active=True))
        return True

    def _count_active(self, count: int) -> None:
        self._active_quota.reached(count)
        self._quota.reached(count)

    def assign_standby(self) -> None:
        """Give copies of every task with state to processes that do not have it."""
        later: list[tuple[Task, int]] = []
        for task in sorted(self._stateful, key=lambda task: (task[1], task[0]), reverse=True):
            for copy in range(self._standbys):
                if not (self._keeps_what_it_ran(task) or self._keeps_on(task)):
                    later.append((task, self._standbys - copy))
                    break
        by_load = self._by_load()
        for task, copies in sorted(later, key=lambda each: each[0], reverse=True):
            for _ in range(copies):
                if not self._give_copy(by_load, task):
                    break

    def _keeps_what_it_ran(self, task: Task) -> bool:
        member_id = self._ran.get(task)
        if member_id is None or task in self._process_of(member_id).tasks:
            return False
        return self._copied(task, member_id)

    def _keeps_on(self, task: Task) -> bool:
        others = [each for each in self._kept.get(task, ()) if task not in self._process_of(each).tasks]
        member_id = self._least_loaded(others)
        return member_id is not None and self._copied(task, member_id)

    def _copied(self, task: Task, member_id: str) -> bool:
        process = self._process_of(member_id)
        if process.counts[member_id] >= self._quota.per_member:
            return False
        self._quota.reached(process.give(member_id, task, active=False))
        return True

    def _give_copy(self, by_load: Heap[_Process], task: Task) -> bool:
        """Give a copy to the process with the least to do that does not have the task."""
        passed: list[_Process] = []
        found = False
        while by_load and not found:
            process = by_load.poll()
            passed.append(process)
            if task not in process.tasks:
                self._quota.reached(process.give_to_least_loaded(task, active=False))
                found = True
        for process in reversed(passed):
            by_load.add(process)
        return found

    def _process_of(self, member_id: str) -> _Process:
        return self._processes[self._members[member_id].process_id]

    def _by_load(self) -> Heap[_Process]:
        order = hash_order(self._processes, len(self._members))
        return Heap(lambda process: process.load, [self._processes[process_id] for process_id in order])

    def _least_loaded(self, member_ids: Sequence[str]) -> str | None:
        """The first of these, unless a later one has less to do, and its process too."""
        found, load = None, (0.0, 0)
        for member_id in member_ids:
            process = self._process_of(member_id)
            own = process.load, process.counts[member_id]
            if found is None or (own[0] < load[0] and own[1] < load[1]):
                found, load = member_id, own
        return found

    def targets(self) -> dict[str, Tasks]:
        """The target of each member."""
        return {
            member_id: Tasks(
                _by_subtopology(self._process_of(member_id).active.get(member_id, ())),
                _by_subtopology(self._process_of(member_id).standby.get(member_id, ())),
            )
            for member_id in self._members
        }


def _by_subtopology(tasks: Sequence[Task] | set[Task]) -> dict[str, frozenset[int]]:
    found: dict[str, set[int]] = {}
    for name, index in sorted(tasks):
        found.setdefault(name, set()).add(index)
    return {name: frozenset(indexes) for name, indexes in found.items()}
