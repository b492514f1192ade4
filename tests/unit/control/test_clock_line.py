"""The clock of the brokers, for people."""

from __future__ import annotations

import pytest

from odradek.control.ctl.brokers import clock_line


@pytest.mark.parametrize(
    ("ahead_ms", "text"),
    [
        (0, "5 ms, as the machine's"),
        (400, "5 ms, as the machine's"),
        (5_000, "5 ms, 0:00:05 ahead"),
        (-86_400_000, "5 ms, 1 day, 0:00:00 behind"),
        (7 * 86_400_000 + 3_600_000, "5 ms, 7 days, 1:00:00 ahead"),
        (1 << 62, "5 ms, 53375995583 days, 15:36:28 ahead"),
    ],
)
def test_how_far_it_is_ahead(ahead_ms: int, text: str) -> None:
    assert text == clock_line({"ahead_ms": ahead_ms, "now_ms": 5, "frozen": False})
