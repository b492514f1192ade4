"""Markers: every row of the table, and what it is looked up by."""

from __future__ import annotations

from itertools import product

import pytest

from odradek.log.markers import (
    ADMIT_MARKER,
    PRODUCER_EPOCH_MAX,
    MarkerEpoch,
    MarkerRule,
    TransactionHere,
    admit_marker,
)
from odradek.wire.errors import ErrorCode

STORED = 5


def test_the_table_has_a_row_for_everything() -> None:
    assert set(product(MarkerRule, MarkerEpoch, TransactionHere)) == set(ADMIT_MARKER)


@pytest.mark.parametrize("version", [-1, 0, 1, 2, 3])
@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("epoch", [STORED - 1, STORED, STORED + 1])
def test_rules_as_the_kip_states_them(version: int, is_open: bool, epoch: int) -> None:
    if version >= 2:
        good = epoch > STORED or (epoch == STORED and not is_open)
    else:
        good = epoch >= STORED
    expected = ErrorCode.NONE if good else ErrorCode.INVALID_PRODUCER_EPOCH
    assert expected is admit_marker(epoch=epoch, stored_epoch=STORED, is_open=is_open, transaction_version=version)


def test_at_the_last_epoch_a_marker_may_come_again() -> None:
    answer = admit_marker(
        epoch=PRODUCER_EPOCH_MAX, stored_epoch=PRODUCER_EPOCH_MAX, is_open=True, transaction_version=2
    )
    assert ErrorCode.NONE is answer
