"""Verification guards (KIP-890, part 1, "Race Condition")."""

from __future__ import annotations

from tests.unit.log.helpers import NOW

from odradek.log.guards import Guard, Guards

PRODUCER = 7


def ask(guards: Guards, *, epoch: int = 0, sequence: int = 0, bump: bool = False, now: int = NOW) -> Guard:
    return guards.ask(PRODUCER, producer_epoch=epoch, base_sequence=sequence, supports_epoch_bump=bump, now=now)


def test_asking_again_gives_the_same_guard() -> None:
    guards = Guards()
    assert ask(guards) is ask(guards, sequence=4)


def test_each_guard_is_another() -> None:
    guards = Guards()
    first = ask(guards)
    guards.transaction_opened(PRODUCER)
    second = ask(guards)
    assert first != second
    assert not guards.holds(PRODUCER, first)
    assert guards.holds(PRODUCER, second)


def test_a_guard_cannot_be_forged() -> None:
    guards = Guards()
    ask(guards)
    assert not guards.holds(PRODUCER, Guard(1))
    assert not guards.holds(PRODUCER, None)


def test_the_lowest_sequence_of_an_epoch_counts() -> None:
    guards = Guards()
    for sequence in (5, 3, 4):
        ask(guards, sequence=sequence)
    assert 3 == guards.pending[PRODUCER].lowest_sequence


def test_a_higher_epoch_begins_anew_and_a_lower_one_says_nothing() -> None:
    guards = Guards()
    ask(guards, epoch=1, sequence=3)
    ask(guards, epoch=2, sequence=9)
    ask(guards, epoch=1, sequence=0)
    assert (2, 9) == (guards.pending[PRODUCER].producer_epoch, guards.pending[PRODUCER].lowest_sequence)


def test_what_the_client_supports_is_what_the_first_request_said() -> None:
    guards = Guards()
    ask(guards, bump=False)
    ask(guards, bump=True)
    assert not guards.pending[PRODUCER].supports_epoch_bump


def test_a_higher_epoch_says_anew_what_its_client_supports() -> None:
    guards = Guards()
    ask(guards, epoch=1, bump=True)
    guard = ask(guards, epoch=2, bump=False)
    ask(guards, epoch=1, bump=True)
    guards.marker_passed(PRODUCER, producer_epoch=2)
    assert not guards.holds(PRODUCER, guard)


def test_a_marker_takes_the_guard_away() -> None:
    guards = Guards()
    guard = ask(guards, epoch=1)
    guards.marker_passed(PRODUCER, producer_epoch=1)
    assert not guards.holds(PRODUCER, guard)


def test_the_marker_of_the_transaction_before_leaves_the_guard_of_the_next() -> None:
    guards = Guards()
    guard = ask(guards, epoch=1, bump=True)
    guards.marker_passed(PRODUCER, producer_epoch=1)
    assert guards.holds(PRODUCER, guard)
    guards.marker_passed(PRODUCER, producer_epoch=2)
    assert not guards.holds(PRODUCER, guard)


def test_guards_expire_by_when_they_were_made() -> None:
    guards = Guards()
    ask(guards, now=NOW)
    ask(guards, now=NOW + 50)
    guards.expire(NOW + 99, after_ms=100)
    assert PRODUCER in guards.pending
    guards.expire(NOW + 100, after_ms=100)
    assert PRODUCER not in guards.pending
