"""Admins who abort what hangs, and are refused where the next transaction of its producer is open by then."""

from __future__ import annotations

from collections import Counter

import pytest
from msgspec.structs import replace
from tests.sim.late import late_record

from odradek.sim.model.promises import Violation
from odradek.sim.run import Run
from odradek.sim.workloads.draw import draw
from odradek.wire.errors import ErrorCode


def test_what_hangs_is_found_and_aborted() -> None:
    alone, helped = Run(late_record()), Run(replace(late_record(), aborters=1, duration_ms=3_000))
    with pytest.raises(Violation) as hanging:
        alone.play()
    assert "hanging transaction" in hanging.value.names
    with pytest.raises(Violation) as late:
        helped.play()
    assert late.value.names == {"late record"}
    assert [error for _, error in helped.aborters[0].aborted] == [ErrorCode.NONE]


@pytest.mark.slow
def test_who_comes_too_late_is_refused() -> None:
    run = Run(draw(1, "aborting-admins"))
    run.play()
    answers = Counter(error for aborter in run.aborters for _, error in aborter.aborted)
    assert set(answers) == {ErrorCode.INVALID_PRODUCER_EPOCH}
