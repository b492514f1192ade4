"""What is shrunk breaks the same promise; what keeps its promises is not accepted, however small it is."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from tests.sim.late import late_record

from odradek.sim.findings import shrink as shrinking
from odradek.sim.findings.shrink import shrink
from odradek.sim.model.promises import Violation
from odradek.sim.run import run
from odradek.sim.schedules.schedule import Deed, Player, Schedule, Send, Txn

HANGING = "hanging transaction"


def broken(schedule: Schedule) -> frozenset[str]:
    try:
        run(schedule)
    except Violation as violation:
        return violation.names
    return frozenset()


def padded() -> Schedule:
    """The late record among much else that has nothing to do with it."""
    schedule = late_record()
    [player] = schedule.players
    other = Player(
        name="p1", transactional_id="b", transactions=(Txn(sends=(Send(partition=1, records=(2,)),), offset=True),) * 2
    )
    fine = Txn(sends=(Send(partition=2),), offset=True)
    return replace(
        schedule,
        players=(replace(player, transactions=(*player.transactions, fine)), other),
        consumers=(0, 1),
        deeds=(*schedule.deeds, Deed(at_ms=300, kind="move a leader", seed=1)),
    )


def test_what_is_left_breaks_the_same_promise_and_nothing_in_it_is_idle() -> None:
    before = padded()
    assert HANGING in broken(before)
    small, runs = shrink(before, HANGING)
    assert runs > 0
    assert HANGING in broken(small)
    assert small.steps <= 3 < before.steps
    [player], [deed] = small.players, small.deeds
    assert deed.rule is not None
    assert HANGING not in broken(replace(small, deeds=()))
    assert HANGING not in broken(replace(small, players=()))
    [transaction] = player.transactions
    idle = replace(player, transactions=(replace(transaction, sends=()),))
    assert HANGING not in broken(replace(small, players=(idle,)))


def test_one_that_accepted_anything_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shrinking, "_breaks", lambda schedule, name: True)
    small, _ = shrink(padded(), HANGING)
    assert HANGING not in broken(small)


@pytest.mark.parametrize("name", [HANGING, "lost write"])
def test_what_keeps_the_promise_is_not_shrunk(name: str) -> None:
    schedule = late_record() if name == "lost write" else replace(late_record(), verification=True)
    with pytest.raises(ValueError, match=name):
        shrink(schedule, name)


def test_groups_are_left_out_and_their_commits_do_not_rest() -> None:
    txn = Txn(sends=(Send(partition=0),), groups=("a", "b"), rests_ms=20)
    simpler = list(shrinking._simpler_transactions(txn))
    assert {replace(txn, groups=()), replace(txn, groups=("a",)), replace(txn, rests_ms=0)} == {*simpler}


@pytest.mark.parametrize(("newer", "level"), [(True, 2), (False, 2), (False, 0)])
@pytest.mark.parametrize("works", [False, True])
def test_a_transaction_that_commits_offsets_alone_is_no_lost_write(newer: bool, level: int, works: bool) -> None:
    """Shrinking leaves such ones behind; they would be told in place of what was found."""
    commits, aborts = Txn(offset=True), Txn(offset=True, ending="abort")
    player = Player(name="p0", transactional_id="a", newer=newer, works=works, transactions=(commits, aborts, commits))
    schedule = Schedule(seed=1, levels=(level,), brokers=1, replicas=1, duration_ms=2_000, players=(player,))
    assert run(schedule).committed >= 1
