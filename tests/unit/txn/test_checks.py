"""The checks before the tables: which error wins."""

from itertools import product

import pytest
from msgspec.structs import replace

from odradek.txn.checks import CHECKS, Check, Claim, Operation, epoch_relation, refusal
from odradek.txn.entry import Entry
from odradek.txn.states import EpochRelation, TxnState

ENTRY = Entry(
    transactional_id="x",
    producer_id=10,
    producer_epoch=5,
    timeout_ms=1,
    state=TxnState.ONGOING,
    last_update_timestamp=0,
    previous_producer_id=10,
)
PREPARED = replace(ENTRY, state=TxnState.PREPARE_COMMIT)
ROTATED = replace(ENTRY, producer_epoch=0, previous_producer_id=9)

GOOD, OLD_EPOCH, OTHER_ID = Claim("x", 10, 5), Claim("x", 10, 4), Claim("x", 11, 5)
NAMELESS = Claim("", 10, 5)

# columns: add, add up to 3.9, verify, end, end v5; None: nothing is refused by these checks
CASES: list[tuple[str, Claim, Entry | None, tuple[int | None, ...]]] = [
    ("no name", NAMELESS, ENTRY, (42, 42, 42, 42, 42)),
    ("unknown", GOOD, None, (49, 49, 49, 49, 49)),
    ("all well", GOOD, ENTRY, (None, None, None, None, None)),
    ("old epoch", OLD_EPOCH, ENTRY, (90, 90, 90, 90, None)),
    ("other producer", OTHER_ID, ENTRY, (49, 49, 49, 49, 49)),
    ("markers owed", GOOD, PREPARED, (51, 51, 51, 51, 51)),
    ("markers owed, old epoch", OLD_EPOCH, PREPARED, (51, 90, 90, 90, 51)),
    ("markers owed, other producer", OTHER_ID, PREPARED, (51, 49, 49, 49, 51)),
    ("last epoch of the id before", Claim("x", 9, 32766), ROTATED, (49, 49, 49, 49, None)),
    ("another epoch of the id before", Claim("x", 9, 32765), ROTATED, (49, 49, 49, 49, 49)),
]


@pytest.mark.parametrize(("claim", "entry", "errors"), [case[1:] for case in CASES], ids=[c[0] for c in CASES])
def test_the_first_failed_check_answers(claim: Claim, entry: Entry | None, errors: tuple[int | None, ...]) -> None:
    refused = [refusal(CHECKS[operation], claim, entry) for operation in Operation]
    assert list(errors) == [None if each is None else each.error for each in refused]


def test_while_a_record_of_the_id_waits_to_be_committed_nothing_else_is_done() -> None:
    def errors(claim: Claim, entry: Entry | None) -> list[int | None]:
        refused = [refusal(CHECKS[operation], claim, entry, pending=True) for operation in Operation]
        return [None if each is None else each.error for each in refused]

    assert [51] * 5 == errors(GOOD, ENTRY)
    assert [51, 90, 90, 90, 51] == errors(OLD_EPOCH, ENTRY)
    assert [49] * 5 == errors(GOOD, None)


def test_every_check_has_an_error_and_is_used() -> None:
    assert set(Check) == {check for checks in CHECKS.values() for check in checks}
    assert all(check.error > 0 for check in Check)


@pytest.mark.parametrize("epoch", [0, 1, 5, 32765, 32766, 32767])
def test_relations_of_the_same_producer(epoch: int) -> None:
    entry = replace(ENTRY, producer_epoch=epoch)
    for claimed in (0, epoch - 1, epoch, epoch + 1, 32767):
        if claimed == 32766 and epoch == 0:
            continue
        expected = (
            EpochRelation.CURRENT
            if claimed == epoch
            else EpochRelation.BUMPED_RETRY
            if claimed == epoch - 1
            else EpochRelation.STALE
            if claimed < epoch
            else EpochRelation.FUTURE
        )
        assert expected is epoch_relation(Claim("x", 10, claimed), entry)


def test_after_an_end_that_kept_its_epoch_one_below_is_no_retry() -> None:
    entry = replace(ENTRY, producer_epoch=5, epoch_used=True)
    assert EpochRelation.CURRENT is epoch_relation(Claim("x", 10, 5), entry)
    assert EpochRelation.ONE_BEHIND is epoch_relation(Claim("x", 10, 4), entry)
    assert EpochRelation.STALE is epoch_relation(Claim("x", 10, 3), entry)


def test_an_overflow_retry_names_the_last_epoch_of_the_id_before() -> None:
    for producer_id, claimed, epoch in product((9, 10), (32765, 32766), (0, 1)):
        entry = replace(ROTATED, producer_epoch=epoch)
        is_overflow = (producer_id, claimed, epoch) == (9, 32766, 0)
        relation = epoch_relation(Claim("x", producer_id, claimed), entry)
        assert is_overflow == (relation is EpochRelation.OVERFLOW_RETRY)
