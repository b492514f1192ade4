"""Who owns a transactional id is told from what was asked and answered: who was succeeded, and who is turned away."""

from __future__ import annotations

from typing import Any

from odradek.sim.checks.ownership import owners_problems
from odradek.sim.schedules.nemesis import Forced
from odradek.sim.world.actors import Asked
from odradek.wire.errors import ErrorCode
from odradek.wire.messages.end_txn_request import EndTxnRequest
from odradek.wire.messages.end_txn_response import EndTxnResponse
from odradek.wire.messages.init_producer_id_request import InitProducerIdRequest
from odradek.wire.messages.init_producer_id_response import InitProducerIdResponse


def init(name: str, at: int, *, epoch: int = -1, error: ErrorCode = ErrorCode.NONE, lost: bool = False) -> Asked:
    request = InitProducerIdRequest(
        transactional_id="a", producer_id=-1 if epoch < 0 else 7, producer_epoch=epoch, transaction_timeout_ms=1_000
    )
    return Asked(name, at, 1, request, 5, at + 1, None if lost else InitProducerIdResponse(error_code=error))


def end(name: str, at: int, *, commit: bool = True, error: ErrorCode = ErrorCode.NONE, version: int = 5) -> Asked:
    request = EndTxnRequest(transactional_id="a", producer_id=7, producer_epoch=1, committed=commit)
    return Asked(name, at, 1, request, version, at + 1, EndTxnResponse(error_code=error))


FENCED = ErrorCode.PRODUCER_FENCED


def names(*asked: Asked, **how: Any) -> list[str]:
    return [each.name for each in owners_problems(asked, timeout_ms=1_000, **how)]


def found_nobody(name: str, at: int) -> Asked:
    asked = init(name, at, epoch=0)
    asked.response.producer_id = 8
    return asked


def test_who_asks_for_the_next_epoch_of_a_forgotten_id_is_the_first_one_again() -> None:
    requests = init("p0", 0), init("p1", 10), found_nobody("p0", 20)
    assert names(*requests, end("p0", 30), forgets=True) == []
    assert names(*requests, end("p1", 30), forgets=True) == ["zombie"]
    assert names(*requests) == ["zombie"]


def test_who_was_succeeded_does_nothing_any_more() -> None:
    assert names(init("p0", 0), init("p1", 10), end("p0", 20)) == ["zombie"]
    assert names(init("p0", 0), init("p1", 10), init("p0", 20, epoch=0)) == ["zombie"]
    assert names(init("p0", 0), init("p1", 10), end("p0", 20, error=FENCED), end("p1", 30)) == []


def test_what_was_on_its_way_may_come_before_the_successor() -> None:
    assert names(init("p0", 0), init("p1", 10), end("p0", 11)) == []
    assert names(init("p0", 0), init("p1", 0), end("p0", 20)) == []


def test_who_takes_it_back_owns_it_again() -> None:
    assert names(init("p0", 0), init("p1", 10), init("p0", 20), end("p0", 30)) == []


def test_an_owner_is_not_turned_away() -> None:
    assert names(init("p0", 0), end("p0", 20, error=FENCED)) == ["fenced owner"]
    assert names(init("p0", 0), init("p0", 20, epoch=0, error=FENCED)) == ["fenced owner"]
    assert names(init("p0", 0), end("p0", 20, error=ErrorCode.CONCURRENT_TRANSACTIONS)) == []
    assert names(init("p0", 0), end("p0", 20, error=FENCED), init("p0", 30), init("p1", 40)) == ["fenced owner"]


def test_an_owner_may_be_turned_away_when_its_time_is_over_or_others_ask() -> None:
    assert names(init("p0", 0), end("p0", 1_500, error=FENCED)) == []
    assert (
        names(init("p0", 0), init("p1", 10, error=ErrorCode.CONCURRENT_TRANSACTIONS), end("p0", 20, error=FENCED)) == []
    )
    assert names(init("p0", 0), init("p1", 10, lost=True), end("p0", 20, error=FENCED)) == []
    assert names(init("p0", 0), end("p0", 20, error=FENCED), forced=[Forced(10, "a")]) == []
    assert names(init("p0", 0), end("p0", 20, error=FENCED), forgets=True) == []


def test_a_bump_that_is_asked_for_again_may_be_forgotten_at_level_0() -> None:
    asked = init("p0", 0), init("p0", 10, epoch=0, lost=True), init("p0", 20, epoch=0, error=FENCED)
    assert names(*asked) == ["fenced owner"]
    assert names(*asked, forgets_bumps=True) == []
    for error, found in {
        ErrorCode.NOT_COORDINATOR: [],
        ErrorCode.COORDINATOR_NOT_AVAILABLE: [],
        ErrorCode.CONCURRENT_TRANSACTIONS: ["fenced owner"],
    }.items():
        said = init("p0", 0), init("p0", 10, epoch=0, error=error), init("p0", 20, epoch=0, error=FENCED)
        assert names(*said, forgets_bumps=True) == found
    assert names(init("p0", 0), init("p0", 20, epoch=0, error=FENCED), forgets_bumps=True) == ["fenced owner"]


def test_who_changes_its_mind_is_told_that_it_is_too_late() -> None:
    wrong = ErrorCode.INVALID_TXN_STATE
    assert names(init("p0", 0), end("p0", 10), end("p0", 20, commit=False, error=wrong)) == []
    assert names(init("p0", 0), end("p0", 20, commit=False, error=wrong)) == ["fenced owner"]
    assert names(init("p0", 0), end("p0", 20, commit=False, error=wrong, version=4)) == []
