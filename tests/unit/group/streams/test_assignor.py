"""The assignor `sticky`: shares, stickiness, copies, and ties that are decided as Java decides them."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odradek.core.java_order import Heap, hash_order
from odradek.group.streams.assignor import MemberSpec, sticky
from odradek.group.streams.tasks import NO_HELD_TASKS, HeldTasks, Tasks, pairs


def held(active: tuple[int, ...] = (), standby: tuple[int, ...] = ()) -> HeldTasks:
    return HeldTasks({"0": dict.fromkeys(active, 1)} if active else {}, {"0": frozenset(standby)} if standby else {})


def active(targets: dict[str, Tasks], member_id: str) -> set[int]:
    return set(targets[member_id].active.get("0", ()))


def standby(targets: dict[str, Tasks], member_id: str) -> set[int]:
    return set(targets[member_id].standby.get("0", ()))


def test_what_runs_stays_where_it_runs() -> None:
    members = {"A": MemberSpec("p", held((1, 3))), "B": MemberSpec("q", held((0, 2)))}

    targets = sticky(members, {"0": (4, False)}, 0)

    assert ({1, 3}, {0, 2}) == (active(targets, "A"), active(targets, "B"))


def test_who_has_too_much_gives_up_the_last() -> None:
    members = {"A": MemberSpec("p", held((0, 1, 2, 3))), "B": MemberSpec("q", NO_HELD_TASKS)}

    targets = sticky(members, {"0": (4, False)}, 0)

    assert ({0, 1}, {2, 3}) == (active(targets, "A"), active(targets, "B"))


def test_a_task_goes_to_who_has_its_state() -> None:
    members = {"A": MemberSpec("p", NO_HELD_TASKS), "B": MemberSpec("q", held((), (0, 1)))}

    targets = sticky(members, {"0": (2, True)}, 1)

    assert {0} == active(targets, "B")
    assert ({1}, {1}) == (active(targets, "A"), standby(targets, "B"))


def test_of_two_that_have_state_the_one_that_is_further_comes_first() -> None:
    members = {
        "A": MemberSpec("p", NO_HELD_TASKS, [("0", 0, 5)]),
        "B": MemberSpec("q", NO_HELD_TASKS, [("0", 0, 9)]),
    }

    assert {0} == active(sticky(members, {"0": (1, True)}, 0), "B")


def test_a_copy_is_not_in_the_process_that_runs_the_task() -> None:
    members = {"A": MemberSpec("p", NO_HELD_TASKS), "B": MemberSpec("p", NO_HELD_TASKS)}

    targets = sticky(members, {"0": (2, True)}, 1)

    assert [set(), set()] == [standby(targets, each) for each in "AB"]


def test_tasks_without_state_have_no_copies() -> None:
    members = {"A": MemberSpec("p", NO_HELD_TASKS), "B": MemberSpec("q", NO_HELD_TASKS)}

    targets = sticky(members, {"0": (2, False)}, 1)

    assert [set(), set()] == [standby(targets, each) for each in "AB"]


def test_nobody_is_assigned_nothing() -> None:
    assert {} == sticky({}, {"0": (2, True)}, 1)


@given(
    processes=st.lists(st.sampled_from("pqrs"), min_size=1, max_size=8),
    tasks=st.integers(1, 12),
    standbys=st.integers(0, 3),
    seed=st.randoms(use_true_random=False),
)
def test_every_task_runs_once_and_copies_are_elsewhere(processes: list[str], tasks: int, standbys: int, seed) -> None:  # type: ignore[no-untyped-def]
    owners = {index: seed.randrange(len(processes) + 2) for index in range(tasks)}
    members = {
        f"m{slot}": MemberSpec(process, held(tuple(index for index, owner in owners.items() if owner == slot)))
        for slot, process in enumerate(processes)
    }

    targets = sticky(members, {"0": (tasks, True)}, standbys)

    running = [index for each in targets.values() for _, index in pairs(each.active)]
    assert sorted(running) == list(range(tasks))
    where: Counter[tuple[str, int]] = Counter()
    for member_id, target in targets.items():
        for tasks_of in (target.active, target.standby):
            where.update((members[member_id].process_id, index) for _, index in pairs(tasks_of))
    assert max(where.values()) == 1
    copies = min(standbys, len(set(processes)) - 1)
    assert Counter(index for _, index in where) == dict.fromkeys(range(tasks), copies + 1)


def test_keys_are_listed_as_java_lists_them() -> None:
    # Recorded from a `HashMap` of Java 21.
    assert ["p-B", "p-A"] == hash_order(["p-A", "p-B"], 2)
    assert ["A", "B", "C"] == hash_order(["C", "B", "A"])


@pytest.mark.parametrize(("items", "order"), [("AB", "AB"), ("ABC", "ACB"), ("ABCD", "ADCB")])
def test_equals_leave_a_heap_as_they_leave_java_s(items: str, order: str) -> None:
    heap = Heap(lambda _: 0.0, items)

    assert list(order) == [heap.poll() for _ in items]
    assert not heap
